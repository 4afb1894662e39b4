"""Image files of every usual kind → RGB bytes.

Grey is replicated; 16-bit grey keeps its high byte (rounded); transparency is laid on white, as a page would
show it; EXIF rotation is applied; an animation gives its first frame.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError
from torch import Tensor

from newfound.core.errors import DataError
from newfound.data.depth import WHITE, brightest, has_white_zero, is_deep, is_wide
from newfound.data.reading import Reading

Pixels = npt.NDArray[np.uint8]
Size = tuple[int, int]
"""Height and width."""

# Pillow warns from half its limit on; of images beyond it we speak ourselves.
warnings.simplefilter("ignore", Image.DecompressionBombWarning)


def decode(path: str | Path, size: Size | None = None, note: Callable[[int], None] | None = None) -> Pixels:
    """One file → (H, W, 3), resized with antialiasing when `size` is given.

    The largest value of a file with more than 8 bits goes to `note`.
    """
    try:
        with _opened(path) as image:
            zero_is_white = has_white_zero(image)
            deep = note is not None and is_deep(image) and not zero_is_white
            if size is not None:
                # a JPEG is read at half, quarter or eighth scale, but at least twice as large as needed
                image.draft(None, (2 * max(size), 2 * max(size)))
            upright: Image.Image = ImageOps.exif_transpose(image)
            pixels: Pixels = np.array(resized(to_rgb(upright), size))
            if note and deep:
                note(brightest(upright))
            return 255 - pixels if zero_is_white else pixels
    except Exception as error:  # Pillow's many readers raise whatever their parsers raise
        raise DataError(f"{path}: {_reason(error)}") from error


def decode_all(
    paths: Sequence[str], size: Size, strict: bool, reading: Reading | None = None
) -> tuple[Tensor, list[int], tuple[str, ...]]:
    """Files → pixels (n, 3, H, W), the rows of `paths` that could be decoded, and why the others could not.

    With `strict` the first file that cannot be decoded is an error.
    """
    pixels = np.empty((len(paths), 3, *size), np.uint8)

    def store(row: int, image: Pixels) -> None:
        pixels[row] = image.transpose(2, 0, 1)

    kept, skipped = decode_each(paths, size, strict, store, reading)
    return torch.from_numpy(pixels if len(kept) == len(paths) else pixels[kept]), kept, skipped


def decode_each(
    paths: Sequence[str],
    size: Size,
    strict: bool,
    use: Callable[[int, Pixels], None],
    reading: Reading | None = None,
) -> tuple[list[int], tuple[str, ...]]:
    """Hand each decoded file and its row to `use`, from many threads; list the rows done and the failures."""
    note = reading.deep.append if reading else None

    def attempt(row: int) -> str:
        try:
            use(row, decode(paths[row], size, note))
        except DataError as error:
            if strict:
                raise DataError(
                    f"{error}; every file must be readable with strict; mend it, remove it, or drop strict"
                ) from error
            return str(error)
        return ""

    results = _pool().map(attempt, range(len(paths)))
    failures = list(reading.over(results) if reading else results)
    return [row for row, why in enumerate(failures) if not why], tuple(why for why in failures if why)


def stored_sizes(paths: Sequence[str]) -> list[Size | None]:
    """(height, width) of each file before any rotation that EXIF asks for; None without a readable header."""
    return list(_pool().map(_stored_size, paths))


def to_rgb(image: Image.Image) -> Image.Image:
    """Any mode of Pillow's → RGB."""
    if image.mode == "F":
        raise ValueError("its pixels are floats without a fixed range; save it with 8 or 16 bits")
    if is_wide(image):
        wide = np.asarray(image).clip(0, WHITE)
        image = Image.fromarray((wide / 257).round().astype(np.uint8))
    elif image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def resized(image: Image.Image, size: Size | None) -> Image.Image:
    """The image at (height, width) `size`; Pillow's bilinear filter is antialiased."""
    if size is None or image.size == (size[1], size[0]):
        return image
    return image.resize((size[1], size[0]), Image.Resampling.BILINEAR)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="decode")


def _opened(path: str | Path) -> ImageFile.ImageFile:
    """A regular file only: opening a pipe would wait for ever."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError("not a regular file")
    return Image.open(path)


def _stored_size(path: str) -> Size | None:
    try:
        with _opened(path) as image:
            return image.height, image.width
    except Exception:  # decoding meets the same failure and reports it
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, UnidentifiedImageError):
        return "not an image that Pillow can read"
    if isinstance(error, Image.DecompressionBombError) and Image.MAX_IMAGE_PIXELS:
        most = f"{2 * Image.MAX_IMAGE_PIXELS:,}"
        return f"more than {most} pixels, the most that Pillow reads; scale it down, or cut it into parts"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
