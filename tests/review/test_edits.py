"""Edits against their meaning, image by image, and the log that stores them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from newfound.core.errors import RunError
from newfound.review.edits import (
    UNSORTED_ID,
    Edit,
    Merge,
    Move,
    Part,
    Rename,
    Split,
    Undo,
    in_effect,
    read_edits,
    write_edits,
)
from newfound.review.replay import by_features, by_rows, fit, names_after, replay, shares_after, split_parts

FOUND = np.array([2, 2, 3, 3, 3, 4])
ROWS = by_rows(len(FOUND))
NAMES = {0: "ant", 1: "bee", 2: "a", 3: "b", 4: "d"}


def part(key: int, name: str, rows: list[int], *centre: float) -> Part:
    return Part(id=key, name=name, rows=rows, centre=list(centre))


def merge(into: int, *ids: int) -> Merge:
    return Merge(into=into, ids=list(ids))


def rename(ids: list[int], *names: str) -> Rename:
    return Rename(ids=ids, names=list(names))


SPLIT = Split(id=3, parts=[part(3, "c", [2, 4], 1.0, 0.0), part(5, "c-2", [3], 0.0, 1.0)])


@pytest.mark.parametrize(
    ("edits", "wanted"),
    [
        ([merge(0, 3), merge(4, 2)], [4, 4, 0, 0, 0, 4]),
        ([SPLIT], [2, 2, 3, 5, 3, 4]),
        ([SPLIT, merge(2, 5)], [2, 2, 3, 2, 3, 4]),
        ([Move(into=0, rows=[0, 5]), merge(3, 2)], [0, 3, 3, 3, 3, 0]),
        ([rename([2], "x")], [2, 2, 3, 3, 3, 4]),
    ],
)
def test_classes_follow(edits: Sequence[Edit], wanted: list[int]) -> None:
    assert replay(edits, FOUND, ROWS).tolist() == wanted
    assert FOUND.tolist() == [2, 2, 3, 3, 3, 4]


def test_names_follow() -> None:
    edits: list[Edit] = [rename([3, 4], "c", "e"), SPLIT, merge(0, 2)]
    assert names_after(edits, NAMES) == {0: "ant", 1: "bee", 3: "c", 4: "e", 5: "c-2"}


@pytest.mark.parametrize(
    ("log", "left"),
    [
        ([Undo()], []),
        ([SPLIT, Undo(), Undo(), merge(2, 3)], [merge(2, 3)]),
        ([SPLIT, merge(2, 3), Undo()], [SPLIT]),
        ([SPLIT, Undo(), merge(2, 3), merge(2, 4), Undo()], [merge(2, 3)]),
    ],
)
def test_undo_removes_the_last_edit_in_effect(log: list[Edit], left: list[Edit]) -> None:
    assert in_effect(log) == left


def test_new_images_go_where_k_means_would_put_them() -> None:
    """The images that were split, as new ones: each goes back to its part."""
    random = np.random.default_rng(0)
    offset = np.array([3.0, 1, 0, 0, 0, 0, 0, 0])
    features = random.normal(size=(200, 8)) + random.integers(0, 2, (200, 1)) * offset
    made = Split(id=3, parts=split_parts(features, np.arange(200), [3, 5, 6], ["c", "c-2", "c-3"]))
    wanted = replay([made], np.full(200, 3), by_rows(200))
    assert replay([made], np.full(200, 3), by_features(features)).tolist() == wanted.tolist()
    assert np.bincount(wanted)[[3, 5, 6]].tolist() == sorted(np.bincount(wanted)[[3, 5, 6]], reverse=True)


def test_shares_follow_image_by_image() -> None:
    """Against the definition: which class each discovered class has become, for each image."""
    shares = np.random.default_rng(0).random((6, 5))
    split = Split(id=3, parts=[part(3, "c", [0, 2, 4]), part(5, "d", [1, 3])])
    found = shares_after([merge(3, 2), split, merge(5, 4), merge(0, 1)], shares, range(5), by_rows(6))
    assert sorted(found) == [UNSORTED_ID, 0, 3, 5]
    for row in range(6):
        apart = row in (1, 3)
        both = shares[row, 2] + shares[row, 3]
        assert found[0][row] == pytest.approx(shares[row, 0] + shares[row, 1])
        assert found[3][row] == pytest.approx(0 if apart else both)
        assert found[5][row] == pytest.approx(shares[row, 4] + (both if apart else 0))


def test_the_share_of_a_new_image_goes_to_the_nearest_part() -> None:
    shares = np.array([[0.1, 0, 0.2, 0.6, 0.1], [0.1, 0, 0.2, 0.6, 0.1]])
    found = shares_after(
        [SPLIT, merge(2, 5)], shares, range(5), by_features(np.array([[9.0, 1.0], [1.0, 9.0]]))
    )
    assert found[3].tolist() == [0.6, 0]
    assert found[2] == pytest.approx([0.2, 0.8])


@pytest.mark.parametrize(
    "edit",
    [
        *(rename([9], "x"), rename([3], "x", "y"), Move(into=9, rows=[5]), Move(into=0, rows=[6])),
        *(merge(9, 3), merge(3, 9), merge(3, 3), merge(2, 3, 3)),
        *(Split(id=9, parts=[part(9, "c", [])]), Split(id=3, parts=[part(3, "c", [6])])),
    ],
)
def test_an_edit_must_refer_to_what_exists(edit: Edit) -> None:
    assert not fit([edit], NAMES, FOUND)


@pytest.mark.parametrize("edit", [rename([3], "x"), merge(0, 3), Move(into=3, rows=[0]), SPLIT])
def test_an_edit_of_a_merged_class_does_not_fit(edit: Edit) -> None:
    assert fit([edit], NAMES, FOUND)
    assert not fit([merge(2, 3), edit], NAMES, FOUND)


def test_a_log_is_read_as_written(tmp_path: Path) -> None:
    log: list[Edit] = [rename([3], "é"), SPLIT, Undo(), Move(into=0, rows=[5]), merge(0, 3)]
    assert read_edits(tmp_path / "edits.jsonl") == ("", [])
    write_edits(tmp_path / "edits.jsonl", "digest", log)
    assert read_edits(tmp_path / "edits.jsonl") == ("digest", log)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("nonsense", "JSON"),
        ('{"id": 3}', "discriminator 'edit'"),
        ('{"edit": "rename", "ids": [2], "names": [7]}', "rename.names.0"),
        ('{"edit": "split", "id": 2, "parts": [5]}', "split.parts.0"),
        ('{"edit": "undo", "more": 1}', "undo.more"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, field: str) -> None:
    path = tmp_path / "edits.jsonl"
    write_edits(path, "digest", [])
    path.write_text(f"{path.read_text()}\n{line}\n")
    with pytest.raises(RunError, match=f"edits.jsonl is not a log of edits: .*{field}"):
        read_edits(path)


@pytest.mark.parametrize("header", ['{"schema_version": 2, "of": "digest"}', '{"edits of": "digest"}'])
def test_another_file_is_refused(tmp_path: Path, header: str) -> None:
    (tmp_path / "edits.jsonl").write_text(header)
    with pytest.raises(RunError, match="is not a log of edits"):
        read_edits(tmp_path / "edits.jsonl")
