"""A page's classes after edits, against sums over images."""

from pathlib import Path

import numpy as np
import pytest
import torch

from newfound.data.images import ResidentImages
from newfound.experiment import Folder, Source
from newfound.experiment.assignments import Assignments
from newfound.experiment.pile import Pile
from newfound.report.discovery import discovery
from newfound.report.shown import Shown
from newfound.review.edits import Edit, Merge, Part, Rename, Split, write_edits
from newfound.review.review import Review

COUNT = 30


@pytest.fixture
def pile() -> Pile:
    """Two known classes and four novel ones."""
    logits = np.random.default_rng(0).normal(size=(COUNT, 6)).astype(np.float32)
    images = ResidentImages(
        torch.zeros(COUNT, 3, 4, 4, dtype=torch.uint8), [str(row) for row in range(COUNT)]
    )
    return Pile(images, logits[:, 2:], logits, ["ant", "bee", "a", "b", "c", "d"], 2, True)


def shown(pile: Pile, folder: Path, edits: list[Edit]) -> Shown:
    given = Assignments.of(pile)
    write_edits(folder / "edits.jsonl", given.digest(Source()), edits)
    return Shown.of(pile, Review(Folder(folder), pile.names[:2], pile.names[2:], given, Source()))


def test_without_edits_it_is_what_the_model_says(pile: Pile, tmp_path: Path) -> None:
    found = shown(pile, tmp_path, [])
    assert (found.novel == pile.novel).all()
    assert (found.joint == pile.joint).all()
    assert (found.assigned == 2 + pile.novel.argmax(1)).all()
    assert list(found.names) == pile.names


def test_a_merged_class_has_the_shares_of_both(pile: Pile, tmp_path: Path) -> None:
    found = shown(pile, tmp_path, [Rename([4], ["zebra"]), Merge(4, [2]), Merge(1, [5])])
    assert list(found.names) == ["ant", "bee", "b", "zebra"]
    assert list(found.ids) == [0, 1, 3, 4]
    np.testing.assert_allclose(found.joint[:, 3], pile.joint[:, 4] + pile.joint[:, 2])
    np.testing.assert_allclose(found.joint[:, 1], pile.joint[:, 1] + pile.joint[:, 5])
    np.testing.assert_allclose(found.novel[:, 1], pile.novel[:, 2] + pile.novel[:, 0])
    home = {0: 3, 1: 2, 2: 3, 3: 1}
    assert found.assigned.tolist() == [home[cluster] for cluster in pile.novel.argmax(1)]
    classes = discovery(found).classes
    assert [each.name for each in classes] == ["b", "zebra"]
    assert sum(each.size for each in classes) == COUNT - (pile.novel.argmax(1) == 3).sum()
    (known,) = discovery(found).known
    assert (known.name, known.size) == ("bee", (pile.novel.argmax(1) == 3).sum())


def test_an_image_takes_its_share_to_the_part_that_it_is_in(pile: Pile, tmp_path: Path) -> None:
    rows = np.flatnonzero(pile.novel.argmax(1) == 0).tolist()
    left, right = rows[:-2], rows[-2:]
    found = shown(pile, tmp_path, [Split(2, [Part(2, "a", left, [1.0]), Part(6, "a-2", right, [0.0])])])
    assert list(found.names) == ["ant", "bee", "a", "b", "c", "d", "a-2"]
    assert np.flatnonzero(found.assigned == 6).tolist() == right
    for row in range(COUNT):
        there = row in right
        assert found.joint[row, 6] == pytest.approx(pile.joint[row, 2] if there else 0)
        assert found.joint[row, 2] == pytest.approx(0 if there else pile.joint[row, 2])
    np.testing.assert_allclose(found.joint.sum(1), 1, rtol=1e-5)


def test_what_was_given_to_a_known_class_no_longer_only_looks_known(pile: Pile, tmp_path: Path) -> None:
    before = discovery(shown(pile, tmp_path, []))
    after = discovery(shown(pile, tmp_path, [Merge(0, [2])]))
    moved = np.flatnonzero(pile.novel.argmax(1) == 0)
    assert set(before.looks_known.tolist()) & set(moved.tolist())
    assert not set(after.looks_known.tolist()) & set(moved.tolist())
