"""Images that a user holds as numpy arrays."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from newfound.core.errors import DataError
from newfound.core.records import Task
from newfound.data.assemble import checked_num_novel, own_dataset, own_look
from newfound.data.decode import Pixels, Size, resized, to_rgb
from newfound.data.images import Dataset, ResidentImages, Split
from newfound.data.sizes import choose_side

Array = npt.NDArray[np.generic]
Arrays = Array | Sequence[Array]
Labels = npt.ArrayLike
Classes = npt.NDArray[np.int64]
CHANNELS = (1, 3, 4)
"""Grey, colour, and colour with opacity."""
DIM = 63
"""Where no value is larger, little is left to be seen."""
HIGHEST = 2**62
"""The highest class, above which new ones still have numbers."""


def from_arrays(images: Arrays, labels: Labels, num_novel: int) -> Dataset:
    """Images (n, H, W) or (n, H, W, C) and labels (n,), -1 where there is none → a data set."""
    num_novel = checked_num_novel(num_novel)
    pictures = _pictures(images)
    given = checked_classes(labels, len(pictures))
    side, why = choose_side([(picture.height, picture.width) for picture in pictures])
    known, pile = np.flatnonzero(given >= 0), np.flatnonzero(given < 0)
    classes, positions = np.unique(given[known], return_inverse=True)
    labelled, unlabelled = (_stacked(pictures, rows, (side, side)) for rows in (known, pile))
    class_ids = torch.from_numpy(positions.astype(np.int64))
    split = Split(labelled, class_ids, unlabelled, Task(len(classes), num_novel), own_look(side))
    found = own_dataset("arrays", split, [str(c) for c in classes], (), why)
    return replace(found, warnings=dark_warnings(labelled, unlabelled) + found.warnings)


def dark_warnings(*sets: ResidentImages) -> tuple[str, ...]:
    """What looks wrong with images none of which has a bright pixel: most likely they have another scale."""
    top = max(int(each.pixels.max()) for each in sets if len(each))
    if top > DIM:
        return ()
    return (
        f"the images look too dark: values of uint8 must span 0 (black) to 255 (white), floats 0 to 1; got "
        f"{top} of 255 as the largest; scale them, new images as those that a run was trained on",
    )


def array_images(images: Arrays, size: Size) -> ResidentImages:
    """(n, H, W) or (n, H, W, C), or a list of arrays of any sizes → a set at `size`.

    Values are uint8, or floats from 0 to 1; C is 1, 3 or 4, the fourth channel being opacity.
    """
    pictures = _pictures(images)
    return _stacked(pictures, np.arange(len(pictures)), size)


def _pictures(images: Arrays) -> list[Image.Image]:
    if number_of(images) == 0:
        raise DataError("there must be images, as an array or a list of arrays; got none; give some")
    _check_many(images)
    return [_picture(image, row) for row, image in enumerate(images)]


def number_of(images: Arrays) -> int:
    """How many images there are."""
    try:
        return len(images)
    except TypeError:
        raise DataError(
            f"images must be an array or a list of arrays; got {type(images).__name__} without a length; "
            "make a list of them"
        ) from None


def as_array(values: npt.ArrayLike, what: str, unmask: str) -> Array:
    """An array without hidden values, of which what lies below the mask would be taken."""
    if np.ma.is_masked(values):
        raise DataError(f"{what} must not be masked; got masked values; {unmask}")
    try:
        return np.asarray(values)
    except ValueError:
        raise DataError(f"{what} must be an array; got parts of several shapes; give them one") from None


def _check_many(images: Arrays) -> None:
    """Refuse an array that may be one image: its rows would pass for images."""
    shape: tuple[int, ...] = tuple(getattr(images, "shape", ()))
    if len(shape) == 2 or (len(shape) == 3 and shape[-1] in CHANNELS):
        many = "grey ones of such width as images[..., None]" if len(shape) == 3 else "flat ones reshaped"
        raise DataError(
            f"images must be (n, H, W) or (n, H, W, C); got {shape}, which may be one image; give one image "
            f"as images[None], {many}"
        )


def _stacked(pictures: Sequence[Image.Image], rows: Classes, size: Size) -> ResidentImages:
    pixels = np.empty((len(rows), 3, *size), np.uint8)
    for place, row in enumerate(rows):
        pixels[place] = np.asarray(resized(to_rgb(pictures[row]), size)).transpose(2, 0, 1)
    return ResidentImages(torch.from_numpy(pixels), [f"image-{row}" for row in rows])


def _picture(image: Array, row: int) -> Image.Image:
    values = as_array(image, f"the image at row {row}", "fill them in, or leave it out")
    grey_or_colour = values.ndim == 2 or (values.ndim == 3 and values.shape[2] in CHANNELS)
    if not grey_or_colour or values.size == 0:
        raise DataError(
            f"an image must be (H, W) or (H, W, C) with C = 1, 3 or 4; got {values.shape} at row {row}; "
            "put the channels last"
        )
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    return Image.fromarray(_bytes(values, row))


def _bytes(values: Array, row: int) -> Pixels:
    if values.dtype == np.uint8:
        return np.ascontiguousarray(values, np.uint8)
    got = str(values.dtype)
    if np.issubdtype(values.dtype, np.floating):
        floats = values.astype(np.float64)
        if missing := int((~np.isfinite(floats)).sum()):
            raise DataError(
                f"images must be of finite numbers; got {missing:,} of {floats.size:,} values that are NaN "
                f"or infinite at row {row}; fill them in, or leave such images out"
            )
        if floats.min() >= 0 and floats.max() <= 1:
            return (floats * 255).round().astype(np.uint8)
        got = f"floats from {floats.min():g} to {floats.max():g}"
    raise DataError(
        f"images must be uint8, or floats from 0 to 1; got {got} at row {row}; scale and convert them"
    )


def checked_classes(labels: Labels, number: int) -> Classes:
    """(n,) classes from 0 on, or -1, of `number` images."""
    classes = as_array(labels, "labels", "give labels.filled(-1), -1 where there is none")
    if number == 0 or classes.shape != (number,) or not np.issubdtype(classes.dtype, np.integer):
        raise DataError(
            f"labels must be one integer for each image, -1 where there is none; got {classes.dtype} of "
            f"shape {classes.shape} for {number} images; number the classes from 0"
        )
    for got in (classes.min(), classes.max()):
        if not -1 <= got <= HIGHEST:
            raise DataError(
                f"labels must be classes from 0 to 2**62, or -1 for none; got {got}; renumber the classes"
            )
    return classes.astype(np.int64)
