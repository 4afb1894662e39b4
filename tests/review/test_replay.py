"""Edits against what they mean, image by image."""

import numpy as np
import pytest

from newfound.review.edits import Edit, Merge, Move, Part, Rename, Split, Undo, standing
from newfound.review.parts import parts_of
from newfound.review.replay import by_features, by_rows, fit, names_after, replay, shares_after

FOUND = np.array([2, 2, 3, 3, 3, 4])
ROWS = by_rows(len(FOUND))
SPLIT = Split(3, [Part(3, "c", [2, 4], [1.0, 0.0]), Part(5, "c-2", [3], [0.0, 1.0])])


def test_merged_classes_become_the_one_that_stays() -> None:
    assert replay([Merge(0, [3]), Merge(4, [2])], FOUND, ROWS).tolist() == [4, 4, 0, 0, 0, 4]
    assert FOUND.tolist() == [2, 2, 3, 3, 3, 4]


def test_images_go_to_the_part_that_they_were_put_in() -> None:
    assert replay([SPLIT], FOUND, ROWS).tolist() == [2, 2, 3, 5, 3, 4]
    assert replay([SPLIT, Merge(2, [5])], FOUND, ROWS).tolist() == [2, 2, 3, 2, 3, 4]


def test_new_images_go_to_the_part_whose_centre_is_nearest() -> None:
    features = np.array([[0, 9], [9, 0], [9, 1], [1, 9], [0, 0.1], [5, 5]], dtype=float)
    assert replay([SPLIT], FOUND, by_features(features)).tolist() == [2, 2, 3, 5, 5, 4]


def test_names_follow() -> None:
    names = {0: "ant", 2: "a", 3: "b", 4: "d"}
    edits: list[Edit] = [Rename([3, 4], ["c", "e"]), SPLIT, Merge(0, [2])]
    assert names_after(edits, names) == {0: "ant", 3: "c", 4: "e", 5: "c-2"}


@pytest.mark.parametrize(
    ("log", "left"),
    [
        ([], []),
        ([Undo()], []),
        ([SPLIT, Undo(), Undo(), Merge(2, [3])], [Merge(2, [3])]),
        ([SPLIT, Merge(2, [3]), Undo()], [SPLIT]),
        ([SPLIT, Undo(), Merge(2, [3]), Merge(2, [4]), Undo()], [Merge(2, [3])]),
    ],
)
def test_an_undo_takes_back_the_last_edit_that_stands(log: list[Edit], left: list[Edit]) -> None:
    assert standing(log) == left


def test_new_images_go_where_k_means_would_put_them() -> None:
    """The images that were split, as new ones: each comes back into its part."""
    random = np.random.default_rng(0)
    features = random.normal(size=(200, 8)) + random.integers(0, 2, (200, 1)) * np.array(
        [3.0, 1, 0, 0, 0, 0, 0, 0]
    )
    rows = np.arange(200)
    split = Split(3, parts_of(features, rows, [3, 5, 6], ["c", "c-2", "c-3"]))
    wanted = replay([split], np.full(200, 3), by_rows(200))
    assert replay([split], np.full(200, 3), by_features(features)).tolist() == wanted.tolist()
    assert np.bincount(wanted)[[3, 5, 6]].tolist() == sorted(np.bincount(wanted)[[3, 5, 6]], reverse=True)


def test_shares_follow_image_by_image() -> None:
    """Against the definition: which class each found class has become, for each image."""
    shares = np.random.default_rng(0).random((6, 5))
    edits: list[Edit] = [
        Merge(3, [2]),
        Split(3, [Part(3, "c", [0, 2, 4], []), Part(5, "d", [1, 3], [])]),
        Merge(5, [4]),
        Merge(0, [1]),
    ]
    found = shares_after(edits, shares, by_rows(6))
    assert sorted(found) == [0, 3, 5]
    for row in range(6):
        apart = row in (1, 3)
        both = shares[row, 2] + shares[row, 3]
        assert found[0][row] == pytest.approx(shares[row, 0] + shares[row, 1])
        assert found[3][row] == pytest.approx(0 if apart else both)
        assert found[5][row] == pytest.approx(shares[row, 4] + (both if apart else 0))


def test_the_share_of_a_new_image_goes_to_the_nearest_part() -> None:
    shares = np.array([[0.1, 0, 0.2, 0.6, 0.1], [0.1, 0, 0.2, 0.6, 0.1]])
    found = shares_after([SPLIT, Merge(2, [5])], shares, by_features(np.array([[9.0, 1.0], [1.0, 9.0]])))
    assert found[3].tolist() == [0.6, 0]
    assert found[2] == pytest.approx([0.2, 0.8])


@pytest.mark.parametrize(
    ("edit", "fits"),
    [
        (Rename([3], ["x"]), True),
        (Rename([9], ["x"]), False),
        (Rename([3], ["x", "y"]), False),
        (Merge(0, [3]), True),
        (Merge(9, [3]), False),
        (Merge(3, [9]), False),
        (Merge(3, [3]), False),
        (Merge(2, [3, 3]), False),
        (Merge(2, [0]), False),
        (Rename([0], ["x"]), False),
        (Rename([3], ["d"]), False),
        (Move(0, [5]), True),
        (Move(9, [5]), False),
        (Move(0, [6]), False),
        (Split(3, []), False),
        (Split(3, [Part(3, "c", [2], []), Part(5, "x", [3], []), Part(5, "y", [4], [])]), False),
        (SPLIT, True),
        (Split(3, [Part(3, "c", [2, 3], []), Part(5, "d", [], [])]), False),
        (Split(3, [Part(5, "c", [2, 3], []), Part(3, "d", [4], [])]), False),
        (Split(3, [Part(3, "c", [2, 3], []), Part(4, "d", [4], [])]), False),
        (Split(9, [Part(9, "c", [], [])]), False),
    ],
)
def test_an_edit_must_be_of_what_is_there(edit: Edit, fits: bool) -> None:
    names = {0: "ant", 2: "a", 3: "b", 4: "d"}
    assert fit([edit], names, 2, FOUND) == fits


def test_an_edit_of_what_has_gone_does_not_fit() -> None:
    names = {0: "ant", 2: "a", 3: "b", 4: "d"}
    for edit in (Rename([3], ["x"]), Merge(0, [3]), SPLIT):
        assert not fit([Merge(2, [3]), edit], names, 2, FOUND)
