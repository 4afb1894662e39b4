"""What own labelled images are too few for."""

from dataclasses import replace

import numpy as np
import pytest

from newfound.data.arrays import from_arrays
from newfound.data.images import Dataset
from newfound.experiment.few import warnings_before


def labelled(*sizes: int) -> Dataset:
    """Classes 0, 1, ... of these many images, and one image without a label."""
    labels = [*np.repeat(range(len(sizes)), sizes).tolist(), -1]
    return from_arrays(np.zeros((len(labels), 8, 8), np.uint8), labels, num_novel=1)


def test_enough_images_need_no_word() -> None:
    assert warnings_before(labelled(5, 6)) == []


def test_a_single_class_teaches_nothing() -> None:
    (warning,) = warnings_before(labelled(5))
    assert warning.startswith("a single known class teaches the network nothing")


@pytest.mark.parametrize(("sizes", "few"), [((4, 5, 1), "4 of '0', 1 of '2'"), ((1,) * 5, "and 2 more")])
def test_classes_of_few_images_are_named(sizes: tuple[int, ...], few: str) -> None:
    (warning,) = warnings_before(labelled(*sizes))
    assert f"{few}; with less than 5 they" in warning


def test_benchmarks_are_as_they_are(digits: Dataset) -> None:
    assert warnings_before(replace(labelled(1), truth=digits.truth)) == []
