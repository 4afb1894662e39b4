"""Images given as arrays, their size, and warnings about few labels."""

import numpy as np
import numpy.typing as npt
import pytest

from newfound.core.errors import DataError, UsageError
from newfound.core.source import Source
from newfound.data.arrays import array_images, from_arrays
from newfound.data.dataset import choose_side

RANDOM = np.random.default_rng(0)
Images = npt.NDArray[np.uint8]


def _images(count: int, *shape: int) -> Images:
    return RANDOM.integers(0, 256, (count, *shape), dtype=np.uint8)


def test_labels_and_the_pile() -> None:
    images = _images(6, 12, 12, 3)
    dataset = from_arrays(images, [7, -1, 3, -1, 7, -1], 2)
    split = dataset.split
    assert (dataset.truth, dataset.source) == (None, Source(arrays=dataset.fingerprint(), num_novel=2))
    assert dataset.class_names == ("3", "7", "novel-1", "novel-2")
    assert split.labels.tolist() == [1, 0, 1]
    assert list(split.labelled.names) == ["image-0", "image-2", "image-4"]
    assert np.array_equal(split.unlabelled.pixels.permute(0, 2, 3, 1), images[1::2])  # type: ignore[attr-defined]
    assert (split.look.size, split.look.kind) == (12, "cifar")
    assert from_arrays(images, [7, -1, 3, -1, 7, -1]).class_names == ("3", "7")


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "-1", "-", "-1", "b", "-1"],
        np.array(["b", -1, "a", -1, "b", -1], object),
        [7.0, -1, 3, -1, 7, -1],
    ],
)
def test_labels_may_be_strings_or_whole_floats(labels: npt.ArrayLike) -> None:
    """Among strings -1 is "-1", as numpy makes of it."""
    dataset = from_arrays(_images(6, 12, 12, 3), labels, 1)
    assert dataset.class_names[:2] in (("-", "b"), ("a", "b"), ("3", "7"))
    assert dataset.split.labels.tolist() == [1, 0, 1]
    assert list(dataset.split.unlabelled.names) == ["image-1", "image-3", "image-5"]


def test_forms_of_arrays() -> None:
    grey, narrow, colour = _images(4, 16, 16), _images(5, 12, 3), _images(12, 12, 3)
    expected = array_images(grey, (16, 16)).pixels
    assert np.array_equal(expected[:, 0], grey)
    assert np.array_equal(expected[:, 1], grey)
    for same in (grey[..., None], grey / 255, (grey / 255).astype(np.float32)):
        assert np.array_equal(array_images(same, (16, 16)).pixels, expected)
    assert np.array_equal(array_images(narrow[..., None], (12, 3)).pixels[:, 0], narrow)
    assert np.array_equal(array_images(colour[None], (12, 12)).pixels[0].permute(1, 2, 0), colour)
    clear = np.concatenate([_images(2, 16, 16, 3), np.zeros((2, 16, 16, 1), np.uint8)], axis=3)
    assert (array_images(clear, (16, 16)).pixels == 255).all()


@pytest.mark.parametrize(("top", "dark"), [(1, True), (63, True), (64, False), (255, False)])
def test_images_of_another_scale_are_warned_of(top: int, dark: bool) -> None:
    images = np.zeros((12, 8, 8), np.uint8)
    images[3] = top
    found = from_arrays(images, [0] * 5 + [1] * 5 + [-1] * 2, 2).warnings
    assert (f"the largest is {top} of 255" in "".join(found)) is dark


def test_arrays_of_different_sizes_are_resized() -> None:
    images = [_images(1, 100, 80, 3)[0], _images(1, 90, 200)[0], _images(1, 120, 99, 3)[0]]
    dataset = from_arrays(images, [0, 1, -1], 1)
    assert dataset.split.labelled.size == (96, 96)
    assert dataset.split.look.kind == "imagenet"


@pytest.mark.parametrize(
    ("images", "text"),
    [
        (_images(3, 3, 12, 12), r"row 0 is uint8 of shape \(3, 12, 12\)"),
        (_images(3, 12), r"got \(3, 12\)\. Use from_embeddings for vectors"),
        ([*_images(3, 12)], r"row 0 is uint8 of shape \(12,\)"),
        (_images(3, 12, 3), r"one image as images\[None\], narrow grey ones as images\[..., None\]"),
        (np.full((3, 12, 12), 1.5), "row 0 is float64 from 1.5 to 1.5"),
        (np.full((3, 12, 12), np.nan), "from nan to nan"),
        (np.zeros((3, 12, 12), np.int64), "row 0 is int64"),
        (_images(0, 12, 12), "n > 0"),
    ],
)
def test_wrong_images(images: Images, text: str) -> None:
    with pytest.raises(DataError, match=text):
        from_arrays(images, [0, 0, -1], 1)


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ([0, -1], r"shape \(2,\) for 3 samples"),
        ([0.5, 1, -1], "float64 of shape"),
        (["a", None, "-1"], "object of shape"),
        (np.array(["a", np.nan, -1], object), "object of shape"),
        (np.array(["a", np.nan, -1]), "got 'nan'"),
        (np.array(["a", "unsorted", -1]), "got 'unsorted'"),
        (np.array(["a", None, -1]).astype(str), "got 'None'"),
        (["a", "b", "c"], "no unlabelled images"),
        ([0, -2, -1], "got -2 to 0"),
        (np.array([0, 1, 2**64 - 1], np.uint64), f"got 0 to {2**64 - 1}"),
        ([0, 0, 0], "no unlabelled images"),
        ([-1, -1, -1], "no labelled images"),
    ],
)
def test_wrong_labels(labels: npt.ArrayLike, text: str) -> None:
    with pytest.raises(DataError, match=text):
        from_arrays(_images(3, 12, 12), labels, 1)
    with pytest.raises(UsageError, match="num_novel"):
        from_arrays(_images(3, 12, 12), labels, 0)


@pytest.mark.parametrize(
    ("sizes", "side", "reason"),
    [
        ([(28, 28)] * 3, 28, "the size of every image"),
        ([(65, 65)] * 3, 64, "to the median shorter side, 65"),
        ([(28, 28), (28, 30)], 32, "28"),
        ([(5, 5)] * 2, 32, "5"),
        ([(480, 640), (1200, 800), (100, 100)], 224, "480"),
        ([(80, 300)] * 2, 96, "80"),
        ([(48, 40)] * 2, 32, "40"),
    ],
)
def test_the_side_of_images(sizes: list[tuple[int, int]], side: int, reason: str) -> None:
    found = choose_side(sizes)
    assert found[0] == side
    assert found[1].endswith(reason)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((5, 6), ()),
        ((5,), ("only one known class",)),
        ((4, 5, 1), ("4 of '0', 1 of '2'. With fewer than 5",)),
        ((1,) * 5, ("and 2 more",)),
    ],
)
def test_few_labelled_images(sizes: tuple[int, ...], words: tuple[str, ...]) -> None:
    """Classes 0, 1, ... of these many images, and one unlabelled image."""
    labels = [*np.repeat(range(len(sizes)), sizes).tolist(), -1]
    warnings = from_arrays(np.full((len(labels), 8, 8), 255, np.uint8), labels, 1).warnings
    assert len(warnings) == len(words)
    assert all(word in warning for word, warning in zip(words, warnings, strict=True))
