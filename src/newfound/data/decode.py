"""Image files of every common kind → RGB bytes.

Grey is replicated; 16-bit grey is rounded to its high byte; transparency is composited onto white; EXIF
rotation is applied; an animation gives its first frame.
"""

import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from time import monotonic

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError
from torch import Tensor

from newfound.core.errors import DataError, Hint, reason_of

log = logging.getLogger(__name__)
Pixels = npt.NDArray[np.uint8]
Size = tuple[int, int]
"""Height and width."""

WHITE = 65535
"""The value of 16-bit files that is read as white."""
DIM = WHITE // 4
"""A 16-bit file without a larger value looks too dark."""
DARK_SHARE = 0.1
"""A warning is due if this share of the 16-bit files looks too dark."""
BITS, PHOTOMETRIC, PLANES = 258, 262, 284
"""TIFF tags."""
PROGRESS_SECONDS = 5.0
"""Between two lines about progress."""

# Pillow warns at half its limit on pixels; images beyond the limit are reported as left out.
warnings.simplefilter("ignore", Image.DecompressionBombWarning)


class Reading:
    """Progress over `total` files, and what looks wrong with them."""

    def __init__(self, total: int, verb: str = "Reading") -> None:
        self.total, self.verb, self._done = total, verb, 0
        self._began = self._logged = monotonic()
        self.peaks: list[int] = []
        """The largest value of each grey file with more than 8 bits."""

    @property
    def warnings(self) -> list[str]:
        """About grey files with more than 8 bits that use too little of their range."""
        dark = [peak for peak in self.peaks if peak <= DIM]
        if len(dark) < max(1, DARK_SHARE * len(self.peaks)):
            return []
        return [
            f"{len(dark):,} of {len(self.peaks):,} files with more than 8 bits look too dark: values should "
            f"span 0 (black) to {WHITE:,} (white), and the largest is {max(dark):,}. Convert all images to 8 "
            "bits in the same way, new ones too."
        ]

    def over(self, results: Iterable[str]) -> Iterator[str]:
        """The same results, each counted as one file."""
        for result in results:
            self.count(1)
            yield result

    def count(self, number: int) -> None:
        """So many files more are done; logs progress every few seconds."""
        self._done += number
        now = monotonic()
        if now - self._logged >= PROGRESS_SECONDS and self._done < self.total:
            self._logged = now
            left = (now - self._began) / self._done * (self.total - self._done)
            log.info(f"{self.verb} images {self._done:,}/{self.total:,}, {left:.0f} s left")


def decode(
    path: str | Path,
    size: Size | None = None,
    note: Callable[[int], None] | None = None,
    crop: bool = False,
) -> Pixels:
    """One file → (H, W, 3), resized with antialiasing if `size` is given; raises whatever Pillow raises.

    `note` receives the largest value of a grey file with more than 8 bits. With `crop` the image keeps its
    proportions and loses what is outside the centre.
    """
    with _opened(path) as image:
        return np.array(resized(upright_rgb(image, size and max(size), note), size, crop))


def upright_rgb(
    image: ImageFile.ImageFile, side: int | None = None, note: Callable[[int], None] | None = None
) -> Image.Image:
    """An opened file, rotated as its EXIF data say, in RGB; it may shrink, if `side` pixels are needed."""
    white_is_zero = _white_is_zero(image)
    if side is not None:
        # A JPEG is read at a half, quarter or eighth of its size, but at least twice as large as needed.
        image.draft(None, (2 * side, 2 * side))
    ImageOps.exif_transpose(image, in_place=True)
    if note and _is_wide(image) and not white_is_zero:
        note(int(np.asarray(image).max()))
    rgb = to_rgb(image)
    return ImageOps.invert(rgb) if white_is_zero else rgb


def _opened(path: str | Path) -> ImageFile.ImageFile:
    check_regular(path)
    return Image.open(path)


def check_regular(path: str | Path) -> None:
    """Opening a named pipe would wait for ever."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError("not a regular file")


def decode_all(
    paths: Sequence[str],
    size: Size,
    strict: bool,
    reading: Reading | None = None,
    keep: bool = True,
    crop: bool = False,
) -> tuple[Tensor, list[int], list[str]]:
    """Files → pixels (n, 3, H, W), the rows of `paths` that could be decoded, and the others with the reason.

    With `strict` the first file that cannot be decoded is an error. Without `keep` there are no pixels.
    """
    pixels = np.empty((len(paths) if keep else 0, 3, *size), np.uint8)
    note = reading.peaks.append if reading else None

    def read(row: int) -> None:
        image = decode(paths[row], size, note, crop)
        if keep:
            pixels[row] = image.transpose(2, 0, 1)

    results = read_each(paths, read, strict)
    failures = list(reading.over(results) if reading else results)
    kept = [row for row, failure in enumerate(failures) if not failure]
    whole = not keep or len(kept) == len(paths)
    return torch.from_numpy(pixels if whole else pixels[kept]), kept, list(filter(None, failures))


def read_each(paths: Sequence[str], read: Callable[[int], None], strict: bool) -> Iterator[str]:
    """Call `read` with each row of `paths`, on all cores: path and reason of one that fails, else nothing.

    With `strict` the first failure is an error.
    """

    def attempt(row: int) -> str:
        try:
            read(row)
        except Exception as error:  # Pillow's readers raise whatever their parsers raise
            if strict:
                raise DataError(f"Cannot read {paths[row]}: {_reason(error)}.", Hint.NO_STRICT) from error
            return f"{paths[row]}: {_reason(error)}"
        return ""

    return _pool().map(attempt, range(len(paths)))


def stored_sizes(paths: Sequence[str]) -> list[Size | None]:
    """(height, width) of each file before any EXIF rotation; None without a readable header."""

    def size(path: str) -> Size | None:
        try:
            with _opened(path) as image:
                return image.height, image.width
        except Exception:  # decoding fails too, and reports the reason
            return None

    return list(_pool().map(size, paths))


def to_rgb(image: Image.Image) -> Image.Image:
    """An image of any Pillow mode → RGB; one that is RGB already, itself."""
    if image.mode == "F":
        raise ValueError("floating-point pixels have no fixed range; save the image with 8 or 16 bits")
    if _is_wide(image):
        wide = np.asarray(image).clip(0, WHITE)
        image = Image.fromarray((wide / 257).round().astype(np.uint8))
    elif image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image if image.mode == "RGB" else image.convert("RGB")


def resized(image: Image.Image, size: Size | None, crop: bool = False) -> Image.Image:
    """The image, or with `crop` its centre, at (height, width) `size`; the filter is antialiased."""
    if size is None or image.size == (size[1], size[0]):
        return image
    fit = ImageOps.fit if crop else Image.Image.resize
    return fit(image, (size[1], size[0]), Image.Resampling.BILINEAR)


def _is_wide(image: Image.Image) -> bool:
    """Whether it is grey with more than 8 bits, which some versions of Pillow widen to 32."""
    return image.mode.startswith("I")


def _white_is_zero(image: ImageFile.ImageFile) -> bool:
    """Whether 0 is white in a grey TIFF of more than 8 bits, which Pillow ignores.

    Colour of more than 8 bits in separate planes, which Pillow takes for 8 bits, is refused.
    """
    tags = getattr(image, "tag_v2", {})
    if tags.get(PLANES) == 2 and max(tags.get(BITS, [8])) > 8:
        raise ValueError(
            "separate colour planes of more than 8 bits; save the image with 8 bits, or interleaved"
        )
    return _is_wide(image) and tags.get(PHOTOMETRIC) == 0


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="decode")


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not an image that Pillow can read"
    if isinstance(error, Image.DecompressionBombError) and Image.MAX_IMAGE_PIXELS:
        return f"more than {2 * Image.MAX_IMAGE_PIXELS:,} pixels, Pillow's limit; scale it down"
    return reason_of(error)
