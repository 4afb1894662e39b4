"""Data sets from numpy arrays."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from newfound.core.errors import DataError
from newfound.data.dataset import Dataset, Split, checked_number
from newfound.data.decode import Size, resized, to_rgb
from newfound.data.images import ResidentImages
from newfound.data.own import choose_side, own_dataset, own_look

Array = npt.NDArray[np.generic]
Arrays = Array | Sequence[Array]
Labels = npt.ArrayLike
Classes = npt.NDArray[np.int64]
CHANNELS = (1, 3, 4)
"""Grey, colour, and colour with opacity."""
DIM = 63
"""Images without a larger value look too dark."""
HIGHEST = 2**62
"""The highest class, which leaves numbers for new ones."""


def from_arrays(images: Arrays, labels: Labels, num_novel: int | None = None) -> Dataset:
    """A data set of images (n, H, W) or (n, H, W, C) and labels (n,), -1 for unlabelled images.

    Values are uint8, or floats from 0 to 1; C is 1, 3 or 4, the fourth channel being opacity. A list may
    contain images of different sizes. `num_novel` is None if it is unknown.
    """
    num_novel = None if num_novel is None else checked_number("num_novel", num_novel)
    pictures = _pictures(images)
    given = checked_classes(labels, len(pictures))
    side, reason = choose_side([(picture.height, picture.width) for picture in pictures])
    known, pile = np.flatnonzero(given >= 0), np.flatnonzero(given < 0)
    classes, positions = np.unique(given[known], return_inverse=True)
    labelled, unlabelled = (_stacked(pictures, rows, (side, side)) for rows in (known, pile))
    class_ids = torch.from_numpy(positions.astype(np.int64))
    split = Split(labelled, class_ids, unlabelled, len(classes), num_novel, own_look(side))
    dark = dark_warnings(labelled, unlabelled)
    return own_dataset("arrays", split, [str(label) for label in classes], reason, dark)


def array_images(images: Arrays, size: Size) -> ResidentImages:
    """Images as `from_arrays` takes them → a set at `size`."""
    pictures = _pictures(images)
    return _stacked(pictures, np.arange(len(pictures)), size)


def dark_warnings(*sets: ResidentImages) -> tuple[str, ...]:
    """A warning if no image has a bright pixel: the values are probably of another scale."""
    top = max(int(each.pixels.max()) for each in sets if len(each))
    if top > DIM:
        return ()
    return (
        "The images look too dark: values should span 0 (black) to 255 (white) for uint8, 0 to 1 for floats, "
        f"and the largest is {top} of 255. Scale all images in the same way, new ones too.",
    )


def checked_classes(labels: Labels, number: int) -> Classes:
    """(n,) classes from 0, or -1, of `number` images."""
    classes = np.asarray(labels)
    got = f"{classes.dtype} of shape {classes.shape} for {number} images"
    if number and classes.shape == (number,) and np.issubdtype(classes.dtype, np.integer):
        least, most = classes.min(), classes.max()
        if least >= -1 and most <= HIGHEST:
            return classes.astype(np.int64)
        got = f"{least} to {most}"
    raise DataError(f"labels must be one integer per image, from 0 to 2**62, or -1 for none; got {got}.")


def _pictures(images: Arrays) -> list[Image.Image]:
    shape: tuple[int, ...] = getattr(images, "shape", (len(images),))
    single = len(shape) == 2 or (len(shape) == 3 and shape[-1] in CHANNELS)  # its rows would pass for images
    if single or not len(images):
        raise DataError(
            f"images must be (n, H, W) or (n, H, W, C) with n > 0, got {shape}. Reshape flat images; pass "
            "one image as images[None], narrow grey ones as images[..., None]."
        )
    return [_picture(image, row) for row, image in enumerate(images)]


def _picture(image: Array, row: int) -> Image.Image:
    values, found = np.asarray(image), ""
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    if values.size and np.issubdtype(values.dtype, np.floating):
        low, high = values.min(), values.max()
        found = f" from {low:g} to {high:g}"
        if low >= 0 and high <= 1:
            values = (values.astype(np.float64) * 255).round().astype(np.uint8)
    is_image = values.size and (values.ndim == 2 or (values.ndim == 3 and values.shape[2] in CHANNELS))
    if not is_image or values.dtype != np.uint8:
        raise DataError(
            "Images must be (H, W) or (H, W, C) with C = 1, 3 or 4, of uint8 or of floats from 0 to 1; "
            f"row {row} is {np.asarray(image).dtype}{found} of shape {np.shape(image)}."
        )
    return Image.fromarray(np.ascontiguousarray(values))


def _stacked(pictures: Sequence[Image.Image], rows: Classes, size: Size) -> ResidentImages:
    pixels = np.empty((len(rows), 3, *size), np.uint8)
    for place, row in enumerate(rows):
        pixels[place] = np.asarray(resized(to_rgb(pictures[row]), size)).transpose(2, 0, 1)
    return ResidentImages(torch.from_numpy(pixels), [f"image-{row}" for row in rows])
