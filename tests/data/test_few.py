"""What own labelled images are too few for."""

import numpy as np
import pytest

from newfound.data.arrays import from_arrays


def warnings_of(*sizes: int) -> tuple[str, ...]:
    """Of classes 0, 1, ... of these many images, and one image without a label."""
    labels = [*np.repeat(range(len(sizes)), sizes).tolist(), -1]
    return from_arrays(np.full((len(labels), 8, 8), 255, np.uint8), labels, num_novel=1).warnings


def test_enough_images_need_no_word() -> None:
    assert warnings_of(5, 6) == ()


def test_a_single_class_teaches_nothing() -> None:
    (warning,) = warnings_of(5)
    assert warning.startswith("a single known class teaches the network nothing")


@pytest.mark.parametrize(("sizes", "few"), [((4, 5, 1), "4 of '0', 1 of '2'"), ((1,) * 5, "and 2 more")])
def test_classes_of_few_images_are_named(sizes: tuple[int, ...], few: str) -> None:
    (warning,) = warnings_of(*sizes)
    assert f"{few}; with less than 5 they" in warning
