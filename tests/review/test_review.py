"""A person's edits: what they change, what they refuse, and that all of it is on disk."""

import json
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from newfound.core.errors import RunError, UsageError
from newfound.engine.claim import Claim
from newfound.experiment import Folder, Source
from newfound.experiment.assignments import Assignments
from newfound.review import review as module
from newfound.review.edits import Edit, Merge, Part, Rename, Split, read_edits, write_edits
from newfound.review.review import Review

KNOWN, NOVEL = ["ant", "bee"], ["novel-1", "novel-2", "novel-3"]
CLUSTERS = np.array([0, 0, 1, 1, 1, 1, 2])
OFTEN = 20


def review(folder: Path) -> Review:
    count = len(CLUSTERS)
    no = np.zeros(count, dtype=bool)
    confidence = np.linspace(0.4, 1, count)
    given = Assignments([f"{row}.png" for row in range(count)], CLUSTERS, confidence, no, no, ["ant"] * count)
    return Review(Folder(folder), KNOWN, NOVEL, given, Source())


@pytest.fixture(autouse=True)
def features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images 3 to 5 look alike, and all others."""

    def given(folder: Folder, images: list[str], data_dir: str | None) -> np.ndarray:
        rows = [int(image.removesuffix(".png")) for image in images]
        return np.array([[1.0, row] if 3 <= row <= 5 else [row + 1.0, 0.0] for row in rows])

    monkeypatch.setattr(module, "pile_features", given)


def sizes(of: Review) -> dict[str, int]:
    return {each.name: len(each.rows) for each in of.classes}


def test_as_found(tmp_path: Path) -> None:
    mine = review(tmp_path)
    assert sizes(mine) == {"novel-1": 2, "novel-2": 4, "novel-3": 1}
    assert mine.classes[0].confidence == pytest.approx(0.45)
    assert [each.id for each in mine.classes] == [2, 3, 4]
    assert not (tmp_path / "edits.jsonl").exists()


def test_edits_are_there_when_the_run_is_opened_again(tmp_path: Path) -> None:
    mine = review(tmp_path)
    mine.rename({"novel-1": "zebra", "novel-2": "novel-1"})
    mine.merge("zebra", "novel-3")
    mine.split("novel-1")
    wanted = {"zebra": 3, "novel-1": 3, "novel-1-2": 1}
    assert sizes(mine) == sizes(review(tmp_path)) == wanted
    assert mine.names == {0: "ant", 1: "bee", 2: "zebra", 3: "novel-1", 5: "novel-1-2"}
    assert mine.ids.tolist() == [2, 2, 5, 3, 3, 3, 2]


def test_every_edit_can_be_undone_and_no_id_comes_back(tmp_path: Path) -> None:
    mine = review(tmp_path)
    found = mine.classes
    mine.rename({"novel-1": "zebra"})
    mine.merge("bee", "zebra")
    mine.split("novel-2", 3)
    assert sorted(mine.names) == [0, 1, 3, 4, 5, 6]
    for _ in range(2):
        mine.undo()
    assert mine.undo() == Rename([2], ["zebra"])
    assert [(each.id, each.name, each.rows.tolist()) for each in review(tmp_path).classes] == [
        (each.id, each.name, each.rows.tolist()) for each in found
    ]
    with pytest.raises(UsageError, match="there must be an edit to undo"):
        mine.undo()
    mine.split("novel-2")
    assert max(mine.names) == 7
    assert len(read_edits(tmp_path / "edits.jsonl", mine.digest)) == 7


def test_a_class_may_be_a_known_one_after_all(tmp_path: Path) -> None:
    mine = review(tmp_path)
    mine.merge("bee", "novel-1", "novel-3")
    assert [(each.name, each.known, len(each.rows)) for each in mine.classes] == [
        ("bee", True, 3),
        ("novel-2", False, 4),
    ]


@pytest.mark.parametrize("name", ["", " zebra", "ze\nbra", "zebra\t", "a=b", "-x", "x" * 101])
def test_names_that_are_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="a name must be one line of at most 100 characters"):
        review(tmp_path).rename({"novel-1": name})


@pytest.mark.parametrize(
    "names", [{"novel-1": "ant"}, {"novel-1": "novel-2"}, {"novel-1": "x", "novel-2": "x"}]
)
def test_names_that_are_taken(tmp_path: Path, names: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="a name must be free"):
        review(tmp_path).rename(names)
    assert not (tmp_path / "edits.jsonl").exists()


def test_two_classes_can_swap_their_names(tmp_path: Path) -> None:
    mine = review(tmp_path)
    mine.rename({"novel-1": "novel-2", "novel-2": "novel-1"})
    assert sizes(mine) == {"novel-2": 2, "novel-1": 4, "novel-3": 1}


def test_classes_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown class 'novel-11'; did you mean 'novel-1'"):
        review(tmp_path).merge("novel-1", "novel-11")
    with pytest.raises(UsageError, match="got the known class 'ant'"):
        review(tmp_path).merge("novel-1", "ant")


def test_classes_and_images_that_are_not_given_by_name(tmp_path: Path) -> None:
    mine, several, number = review(tmp_path), cast("str", ["novel-2"]), cast("str", 2)
    with pytest.raises(UsageError, match=r"by their names, one by one; got \['novel-2'\]"):
        mine.merge("ant", several)
    with pytest.raises(UsageError, match="by their names, one by one; got 2;"):
        mine.rename({number: "q"})
    with pytest.raises(UsageError, match="0 are called"):
        mine.move("ant", cast("str", ["0.png"]))


@pytest.mark.parametrize("others", [(), ("novel-1",), ("novel-2", "novel-2")])
def test_merges_that_make_no_sense(tmp_path: Path, others: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="name each once"):
        review(tmp_path).merge("novel-1", *others)


@pytest.mark.parametrize(("name", "number"), [("novel-2", 1), ("novel-2", 5)])
def test_splits_that_cannot_be(tmp_path: Path, name: str, number: int) -> None:
    with pytest.raises(UsageError, match="up to one for each image"):
        review(tmp_path).split(name, number)


def test_a_class_with_too_few_images_to_be_split(tmp_path: Path) -> None:
    mine = review(tmp_path)
    with pytest.raises(UsageError, match="2 images or more to be split; 'novel-3' has 1; leave it whole"):
        mine.split("novel-3")
    mine.move("novel-1", "6.png")
    with pytest.raises(UsageError, match="'novel-3' has 0"):
        mine.split("novel-3")


def test_images_that_look_the_same_are_not_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "pile_features", lambda folder, images, data_dir: np.ones((len(images), 3)))
    with pytest.raises(UsageError, match="the model tells 1 apart"):
        review(tmp_path).split("novel-2")


@pytest.mark.parametrize(
    "edit",
    [
        Merge(9, [2]),
        Rename([99], ["x"]),
        Rename([2], ["x", "y"]),
        Split(3, [Part(3, "a", [2], []), Part(5, "b", [3], [])]),
    ],
)
def test_a_log_of_another_run_is_refused(tmp_path: Path, edit: Edit) -> None:
    write_edits(tmp_path / "edits.jsonl", review(tmp_path).digest, [edit])
    with pytest.raises(RunError, match="must hold edits of the classes of this run"):
        review(tmp_path)


def test_two_who_edit_at_once(tmp_path: Path) -> None:
    """The second is told, and nothing of the first is lost."""
    mine, yours = review(tmp_path), review(tmp_path)
    yours.rename({"novel-1": "zebra"})
    with pytest.raises(UsageError, match="somebody has edited them since"):
        mine.merge("novel-1", "novel-2")
    assert sizes(review(tmp_path)) == {"zebra": 2, "novel-2": 4, "novel-3": 1}


def rename_often(folder: Path, key: int) -> None:
    """Give a class `OFTEN` names, each as soon as nobody else is at it."""
    done = 0
    while done < OFTEN:
        mine = review(folder)
        with suppress(UsageError):
            mine.rename({mine.names[key]: f"{key}-{done}"})
            done += 1


def test_two_processes_lose_no_edit(tmp_path: Path) -> None:
    others = [get_context("fork").Process(target=rename_often, args=(tmp_path, key)) for key in (2, 3)]
    for other in others:
        other.start()
    for other in others:
        other.join(timeout=60)
        assert other.exitcode == 0
    mine = review(tmp_path)
    assert len(mine.log) == 2 * OFTEN
    assert [mine.names[2], mine.names[3]] == [f"2-{OFTEN - 1}", f"3-{OFTEN - 1}"]


def test_an_edit_is_made_by_whoever_has_the_folder_and_lets_go_of_it(tmp_path: Path) -> None:
    mine, yours, trains = review(tmp_path), review(tmp_path), Claim(tmp_path)
    with pytest.raises(UsageError, match="one process at a time"):
        mine.rename({"novel-1": "zebra"})
    trains.release()
    mine.rename({"novel-1": "zebra"})
    with pytest.raises(UsageError, match="somebody has edited them since") as refused:
        yours.rename({"novel-1": "okapi"})
    assert refused.tb  # which is looked at, and holds what it saw
    Claim(tmp_path).release()


def test_a_rename_of_nothing(tmp_path: Path) -> None:
    for names in ({}, {"novel-1": "novel-1"}):
        with pytest.raises(UsageError, match="got none"):
            review(tmp_path).rename(names)


@pytest.mark.parametrize(
    "text",
    [
        *("nonsense", '{"edit": "paint"}', '{"edit": "rename"}', "[]", '{"id": 3}'),
        '{"edit": "rename", "ids": [2], "names": [7]}',
        '{"edit": "merge", "into": "x", "ids": [3]}',
        '{"edit": "merge", "into": 2, "ids": 3}',
        '{"edit": "split", "id": 2, "parts": [5]}',
    ],
)
def test_a_log_that_is_not_ours_is_refused(tmp_path: Path, text: str) -> None:
    begins = json.dumps({"edits of": review(tmp_path).digest})
    (tmp_path / "edits.jsonl").write_text(f"{begins}\n\n{text}\n")
    with pytest.raises(RunError, match="must hold the edits that newfound wrote; got in line 3"):
        review(tmp_path)


def test_a_log_of_other_assignments_is_refused(tmp_path: Path) -> None:
    mine = review(tmp_path)
    mine.rename({"novel-1": "zebra"})
    other = replace(mine.assignments, clusters=mine.assignments.clusters[::-1].copy())
    with pytest.raises(RunError, match="got those of another run or version, or that file has changed"):
        Review(mine.folder, KNOWN, NOVEL, other, Source())


def test_images_are_moved_and_moved_back(tmp_path: Path) -> None:
    mine = review(tmp_path)
    mine.move("novel-3", "0.png", "4.png", "0.png")
    assert len(mine.log[-1].rows) == 2  # type: ignore[union-attr]
    mine.move("ant", "5.png")
    assert sizes(mine) == sizes(review(tmp_path)) == {"ant": 1, "novel-1": 1, "novel-2": 2, "novel-3": 3}
    mine.merge("novel-1", "novel-3")
    assert mine.ids.tolist() == [2, 2, 3, 3, 2, 0, 2]
    for _ in range(3):
        mine.undo()
    assert sizes(mine) == {"novel-1": 2, "novel-2": 4, "novel-3": 1}


def test_images_are_found_by_the_end_of_their_paths(tmp_path: Path) -> None:
    mine = review(tmp_path)
    paths = [f"/pile/{name}/1.png" for name in ("a", "b", "ba", "c/d", "e/d", "f", "g")]
    mine.assignments = replace(mine.assignments, images=paths)
    mine.move("ant", "a/1.png", "c/d/1.png", "pile/g/1.png")
    assert mine.log[-1].rows == [0, 3, 6]  # type: ignore[union-attr]
    for image, number in (("1.png", 7), ("d/1.png", 2), ("/a/1.png", 0), ("x/a/1.png", 0)):
        with pytest.raises(UsageError, match=f"{number} are called '{image}'"):
            mine.move("ant", image)


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (("9.png",), "must be one of the pile; 0 are called '9.png'"),
        (("0.png", "nothing"), "must be one of the pile; 0 are called 'nothing'"),
        (("0.png",), "not in 'novel-1' yet; got 0.png, there already; name one"),
        ((), "not in 'novel-1' yet; got none; name one"),
    ],
)
def test_moves_of_nothing_that_could_be_moved(tmp_path: Path, images: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        review(tmp_path).move("novel-1", *images)


def test_names_are_composed_and_may_hold_joiners(tmp_path: Path) -> None:
    mine = review(tmp_path)
    mine.rename({"novel-1": "cafe\u0301", "novel-2": "👨‍👩‍👧"})
    assert [each.name for each in mine.classes] == ["café", "👨‍👩‍👧", "novel-3"]
    with pytest.raises(UsageError, match="must be free"):
        mine.rename({"novel-3": "café"})
