"""Data sets from numpy arrays."""

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from newfound.core.calls import public
from newfound.core.errors import DataError
from newfound.core.settings import Positive
from newfound.core.source import UNSORTED, PileKind, Source
from newfound.data.dataset import Dataset, Split, choose_side, own_dataset, own_look
from newfound.data.decode import Size, digest_of, resized, to_rgb
from newfound.data.files import MISSING
from newfound.data.images import ResidentImages

Array = npt.NDArray[np.generic]
Arrays = Array | Sequence[Array]
Labels = npt.ArrayLike
Classes = npt.NDArray[np.int64]
CHANNELS = (1, 3, 4)
"""Grey, colour, and colour with opacity."""
DIM = 63
"""Images without a larger value look too dark."""
HIGHEST = 2**62
"""The highest class number, which leaves numbers for new classes."""
UNLABELLED = -1


class ArrayImages(ResidentImages):
    """Images passed in Python: squares of one size, and the originals for pretrained encoders."""

    whole: Sequence[Array] = ()
    """(n,) uint8 (H, W) or (H, W, C), of any size."""

    def picture(self, row: int) -> tuple[Image.Image, str]:
        """An original image in RGB, and its digest."""
        image = _rgb(self.whole[row])
        return image, digest_of(str(image.size).encode() + image.tobytes())

    def contents(self) -> list[str]:
        return [self.picture(row)[1] for row in range(len(self))]

    def select(self, rows: Tensor) -> Self:
        chosen = super().select(rows)
        chosen.whole = [self.whole[row] for row in rows.tolist()]
        return chosen

    def _place(self, device: torch.device, move: bool) -> Self:
        placed = super()._place(device, move)
        placed.whole = self.whole
        return placed


@public
def from_arrays(
    images: Arrays, labels: Labels, num_novel: Positive | None = None, *, pile: PileKind | None = None
) -> Dataset:
    """A data set of images (n, H, W) or (n, H, W, C) and labels (n,), numbers or strings, -1 for none.

    Values are uint8, or floats from 0 to 1; C is 1, 3 or 4, the fourth channel being opacity. A list may
    contain images of different sizes. `num_novel` is None if it is unknown. `pile` is "mixed" if unlabelled
    images may be of known classes, "novel" if not; by default that of the method's paper.
    """
    checked = _checked(images)
    given, classes = encoded(labels, len(checked))
    side, reason = choose_side([(image.shape[0], image.shape[1]) for image in checked])
    known, others = np.flatnonzero(given >= 0), np.flatnonzero(given < 0)
    labelled, unlabelled = (_squares(checked, rows, (side, side)) for rows in (known, others))
    class_ids = torch.from_numpy(given[known])
    split = Split(labelled, class_ids, unlabelled, len(classes), num_novel, own_look(side), pile or "novel")
    dark = dark_warnings(labelled, unlabelled)
    dataset = own_dataset("arrays", split, [str(label) for label in classes], reason, dark)
    return replace(dataset, source=Source(arrays=dataset.fingerprint(), num_novel=num_novel, pile=pile))


def array_images(images: Arrays, size: Size) -> ArrayImages:
    """Images as `from_arrays` takes them → a set at `size`."""
    checked = _checked(images)
    return _squares(checked, np.arange(len(checked)), size)


def dark_warnings(*sets: ResidentImages) -> tuple[str, ...]:
    """A warning if no image has a bright pixel: the values probably have another scale."""
    top = max(int(each.pixels.max()) for each in sets if len(each))
    if top > DIM:
        return ()
    return (
        "The images look too dark: values should span 0 (black) to 255 (white) for uint8, 0 to 1 for floats, "
        f"but the largest is {top} of 255. Scale all images in the same way, including new ones.",
    )


def encoded(labels: Labels, number: int) -> tuple[Classes, Array]:
    """The position of each label among the classes (n,), -1 for none, and the classes in order.

    Labels are whole numbers from 0, or strings. Among strings "-1" stands for none, which is what
    np.array(["cat", -1]) holds.
    """
    given = np.asarray(labels)
    if given.dtype.kind == "f" and (given == given.round()).all():
        given = given.astype(np.int64)
    elif given.dtype.kind == "O" and all(isinstance(each, str | Integral) for each in given.flat):
        given = np.array(given.tolist())
    got = f"{given.dtype} of shape {given.shape} for {number} samples"
    if given.dtype.kind == "U" and (missing := sorted({*MISSING, UNSORTED} & {*given.flat})):
        got = repr(str(missing[0]))
    elif number and given.shape == (number,) and given.dtype.kind in "iuU":
        if given.dtype.kind == "U" or (given.min() >= UNLABELLED and given.max() <= HIGHEST):
            known = given != (str(UNLABELLED) if given.dtype.kind == "U" else UNLABELLED)
            places = np.full(number, UNLABELLED, np.int64)
            classes, places[known] = np.unique(given[known], return_inverse=True)
            return places, classes
        got = f"{given.min()} to {given.max()}"
    raise DataError(
        f"Each sample needs a label: a whole number from 0 to 2**62 or a string, or -1 for none; got {got}."
    )


def _checked(images: Arrays) -> list[Array]:
    shape: tuple[int, ...] = getattr(images, "shape", (len(images),))
    # The rows of a single colour image would pass for grey images.
    if len(shape) == 2 or (len(shape) == 3 and shape[-1] in CHANNELS) or not len(images):
        raise DataError(
            f"Images must be (n, H, W) or (n, H, W, C) with n > 0, got {shape}. Use from_embeddings for "
            "vectors; pass one image as images[None], narrow grey ones as images[..., None]."
        )
    return [_levels(image, row) for row, image in enumerate(images)]


def _levels(image: Array, row: int) -> Array:
    """An image in uint8, (H, W) or (H, W, C)."""
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
    return values


def _rgb(image: Array) -> Image.Image:
    return to_rgb(Image.fromarray(np.ascontiguousarray(image)))


def _squares(images: Sequence[Array], rows: Classes, size: Size) -> ArrayImages:
    pixels = np.empty((len(rows), 3, *size), np.uint8)
    for place, row in enumerate(rows):
        pixels[place] = np.asarray(resized(_rgb(images[row]), size)).transpose(2, 0, 1)
    found = ArrayImages(torch.from_numpy(pixels), [f"image-{row}" for row in rows])
    found.whole = [images[row] for row in rows]
    return found
