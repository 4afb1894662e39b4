"""Images given as arrays."""

from typing import cast

import numpy as np
import numpy.typing as npt
import pytest

from newfound.core.errors import DataError, UsageError
from newfound.data.arrays import array_images, from_arrays

RANDOM = np.random.default_rng(0)
Images = npt.NDArray[np.uint8]


def _images(count: int, *shape: int) -> Images:
    return RANDOM.integers(0, 256, (count, *shape), dtype=np.uint8)


def test_labels_and_the_pile() -> None:
    images = _images(6, 12, 12, 3)
    dataset = from_arrays(images, [7, -1, 3, -1, 7, -1], 2)
    split = dataset.split
    assert dataset.truth is None
    assert dataset.class_names == ("3", "7", "novel-1", "novel-2")
    assert split.labels.tolist() == [1, 0, 1]
    assert list(split.labelled.names) == ["image-0", "image-2", "image-4"]
    assert list(split.unlabelled.names) == ["image-1", "image-3", "image-5"]
    assert np.array_equal(split.unlabelled.pixels.permute(0, 2, 3, 1), images[1::2])  # type: ignore[attr-defined]
    assert (split.look.size, split.look.kind) == (12, "cifar")


def test_forms_of_arrays() -> None:
    grey = _images(4, 16, 16)
    expected = array_images(grey, (16, 16)).pixels
    assert np.array_equal(expected[:, 0], grey)
    assert np.array_equal(expected[:, 1], grey)
    assert np.array_equal(array_images(grey[..., None], (16, 16)).pixels, expected)
    assert np.array_equal(array_images(grey / 255, (16, 16)).pixels, expected)
    assert np.array_equal(array_images((grey / 255).astype(np.float32), (16, 16)).pixels, expected)
    clear = np.concatenate([_images(2, 16, 16, 3), np.zeros((2, 16, 16, 1), np.uint8)], axis=3)
    assert (array_images(clear, (16, 16)).pixels == 255).all()


@pytest.mark.parametrize(("top", "dark"), [(1, True), (16, True), (63, True), (64, False), (255, False)])
def test_images_of_another_scale_are_warned_of(top: int, dark: bool) -> None:
    images = np.zeros((12, 8, 8), np.uint8)
    images[3] = top
    found = from_arrays(images, [0] * 5 + [1] * 5 + [-1] * 2, 2).warnings
    assert ("look too dark" in "".join(found)) is dark
    assert (f"got {top} of 255 as the largest" in "".join(found)) is dark


@pytest.mark.parametrize("width", [2, 5, 12])
def test_grey_images_that_cannot_be_one_in_colour(width: int) -> None:
    grey = _images(3, 12, width)
    assert np.array_equal(array_images(grey, (12, width)).pixels[:, 0], grey)


def test_what_the_refusal_of_one_image_tells_to_do() -> None:
    colour, grey = _images(12, 12, 3), _images(5, 12, 3)
    assert np.array_equal(array_images(colour[None], (12, 12)).pixels[0].permute(1, 2, 0), colour)
    assert np.array_equal(array_images(grey[..., None], (12, 3)).pixels[:, 0], grey)


def test_arrays_of_different_sizes_are_resized() -> None:
    images = [_images(1, 100, 80, 3)[0], _images(1, 90, 200)[0], _images(1, 120, 99, 3)[0]]
    dataset = from_arrays(images, [0, 1, -1], 1)
    assert dataset.split.labelled.size == (96, 96)
    assert dataset.split.look.kind == "imagenet"
    assert "96 x 96" in dataset.note


@pytest.mark.parametrize(
    ("images", "text"),
    [
        (
            _images(3, 3, 12, 12),
            r"must be \(H, W\) or \(H, W, C\).*got \(3, 12, 12\) at row 0; put the channels last",
        ),
        (_images(3, 12), r"got \(3, 12\), which may be one image; give one image as images\[None\], flat"),
        ([*_images(3, 12)], r"got \(12,\) at row 0"),
        (_images(3, 12, 1), r"got \(3, 12, 1\), which may be one image"),
        (_images(3, 12, 3), r"images\[None\], grey ones of such width as images\[..., None\]"),
        (_images(3, 12, 4), "grey ones of such width"),
        (np.full((3, 12, 12), 1.5), "floats from 0 to 1; got floats from 1.5 to 1.5"),
        (np.full((3, 12, 12), np.nan), "finite numbers; got 144 of 144 values that are NaN"),
        (np.zeros((3, 12, 12), np.int64), "must be uint8, or floats from 0 to 1; got int64"),
        (np.array(3), "an array or a list of arrays; got ndarray without a length"),
        ((image for image in _images(3, 12, 12)), "got generator without a length; make a list of them"),
        ([[[1, 2], [3]]], "image at row 0 must be an array; got parts of several shapes"),
        (
            np.ma.masked_less(np.arange(432, dtype=np.float64).reshape(3, 12, 12) / 432, 0.5),
            "image at row 0 must not be masked; got masked values; fill them in",
        ),
    ],
)
def test_wrong_images(images: Images, text: str) -> None:
    with pytest.raises(DataError, match=text):
        from_arrays(images, [0, 0, -1], 1)


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ([0, -1], r"one integer for each image.*shape \(2,\) for 3 images"),
        (["a", "b", "c"], "one integer for each image"),
        ([(1,), (2,), -1], "labels must be an array; got parts of several shapes"),
        ([0, -2, -1], r"classes from 0 to 2\*\*62, or -1 for none; got -2"),
        ([0, 2**63 - 1, -1], f"or -1 for none; got {2**63 - 1}; renumber the classes"),
        (np.array([0, 1, 2**64 - 1], np.uint64), f"got {2**64 - 1}"),
        (
            np.ma.masked_equal([0, 1, -1], 1),
            r"labels must not be masked; got masked values; give labels\.filled\(-1\)",
        ),
        ([0, 0, 0], "as many unlabelled images as novel classes; got 0 images for 1"),
        ([-1, -1, -1], "labelled images of known classes; got 0 images"),
    ],
)
def test_wrong_labels(labels: list[int], text: str) -> None:
    with pytest.raises(DataError, match=text):
        from_arrays(_images(3, 12, 12), labels, 1)


def test_no_novel_class() -> None:
    with pytest.raises(UsageError, match="num_novel must be at least 1"):
        from_arrays(_images(3, 12, 12), [0, 0, -1], 0)


def test_a_number_that_is_to_be_found() -> None:
    with pytest.raises(UsageError, match=r"got 'auto'; .* newfound\.estimate_num_novel"):
        from_arrays(_images(3, 12, 12), [0, 0, -1], cast("int", "auto"))


def test_no_images() -> None:
    with pytest.raises(DataError, match="there must be images"):
        from_arrays(_images(0, 12, 12), np.empty(0, np.int64), 1)
