"""Edits against what they mean, image by image."""

import numpy as np
import pytest

from newfound.review.edits import Edit, Merge, Part, Rename, Split, Undo, standing
from newfound.review.replay import by_features, by_rows, first_part, names_after, replay

FOUND = np.array([2, 2, 3, 3, 3, 4])
SPLIT = Split(3, [Part(3, "c", [2, 4], [1.0, 0.0]), Part(5, "c-2", [3], [0.0, 1.0])])


def test_merged_classes_become_the_one_that_stays() -> None:
    assert replay([Merge(0, [3]), Merge(4, [2])], FOUND, by_rows).tolist() == [4, 4, 0, 0, 0, 4]
    assert FOUND.tolist() == [2, 2, 3, 3, 3, 4]


def test_images_go_to_the_part_that_they_were_put_in() -> None:
    assert replay([SPLIT], FOUND, by_rows).tolist() == [2, 2, 3, 5, 3, 4]
    assert replay([SPLIT, Merge(2, [5])], FOUND, by_rows).tolist() == [2, 2, 3, 2, 3, 4]
    assert replay([SPLIT], FOUND, first_part).tolist() == FOUND.tolist()


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
