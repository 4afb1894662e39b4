"""Image files of every common kind → RGB bytes.

Grey is replicated; 16-bit grey is rounded to its high byte; transparency is composited onto white; EXIF
rotation is applied; an animation gives its first frame.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from importlib.util import find_spec
from io import BytesIO
from itertools import chain
from pathlib import Path
from time import monotonic

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageFile, ImageOps
from torch import Tensor

from newfound.core.errors import DataError
from newfound.data.members import is_remote, open_image, read_image
from newfound.data.workers import check_alone, read_all, read_each, shared

log = logging.getLogger(__name__)
Pixels = npt.NDArray[np.uint8]
Size = tuple[int, int]
"""Height and width."""

WHITE = 65535
"""The value in 16-bit files that is read as white."""
DIM = WHITE // 4
"""A 16-bit file without a larger value looks too dark."""
DARK_SHARE = 0.1
"""There is a warning if this share of the 16-bit files looks too dark."""
BITS, PHOTOMETRIC, PLANES = 258, 262, 284
"""TIFF tags."""
LARGE = 2**24
"""Images with more pixels are decoded one at a time, since decoding takes up to 20 bytes per pixel."""
PROGRESS_SECONDS = 5.0
"""Seconds between two progress messages."""

READS_HEIC = find_spec("pillow_heif") is not None
if READS_HEIC:
    from pillow_heif import register_heif_opener

    register_heif_opener()
# Pillow warns at half its limit on pixels; images beyond the limit are reported as left out.
warnings.simplefilter("ignore", Image.DecompressionBombWarning)


class Reading:
    """Tracks progress over `total` files, in one call or several, and what looks wrong with them."""

    def __init__(self, total: int, verb: str = "Reading") -> None:
        self.total, self.verb, self._done = total, verb, 0
        self._began = self._logged = monotonic()
        self.peaks: list[int] = []
        """The largest value of each grey file with more than 8 bits."""

    @property
    def warnings(self) -> list[str]:
        """A warning if grey files with more than 8 bits use too little of their range."""
        dark = [peak for peak in self.peaks if peak <= DIM]
        if len(dark) < max(1, DARK_SHARE * len(self.peaks)):
            return []
        return [
            f"{len(dark):,} of {len(self.peaks):,} files with more than 8 bits look too dark: values should "
            f"span 0 (black) to {WHITE:,} (white), but the largest is {max(dark):,}. Convert all images to 8 "
            "bits in the same way, including new ones."
        ]

    def count(self, number: int) -> None:
        """Record that `number` more files are done; logs progress every few seconds."""
        self._done += number
        now = monotonic()
        if now - self._logged >= PROGRESS_SECONDS and self._done < self.total:
            self._logged = now
            left = (now - self._began) / self._done * (self.total - self._done)
            log.info(f"{self.verb} images {self._done:,}/{self.total:,}, {left:,.0f} s left")


def decode(
    path: str | Path | bytes,
    size: Size | None = None,
    note: Callable[[int], None] | None = None,
    crop: bool = False,
) -> Pixels:
    """One file, or its content → (H, W, 3), resized with antialiasing if `size` is given.

    Raises whatever Pillow raises.

    `note` receives the largest value of a grey file with more than 8 bits. With `crop`, the image keeps its
    proportions and is cropped to its centre.
    """
    with _opened(path) as image:
        return np.array(resized(upright_rgb(image, size and max(size), note), size, crop))


def scaled(path: str | Path, side: int) -> Image.Image:
    """One file in its own proportions, at most `side` pixels wide and high."""
    with _opened(path) as image:
        small = upright_rgb(image, side)
        small.thumbnail((side, side))
        return small


def upright_rgb(
    image: ImageFile.ImageFile, side: int | None = None, note: Callable[[int], None] | None = None
) -> Image.Image:
    """An opened file in RGB, with EXIF rotation applied; decoded smaller if only `side` pixels are needed."""
    white_is_zero = _white_is_zero(image)
    if side is not None:
        # A JPEG is read at a half, quarter or eighth of its size, but at least twice as large as needed.
        image.draft(None, (2 * side, 2 * side))
    if image.width * image.height > LARGE:
        check_alone()
    ImageOps.exif_transpose(image, in_place=True)
    if note and _is_wide(image) and not white_is_zero:
        note(int(np.asarray(image).max()))
    rgb = to_rgb(image)
    return ImageOps.invert(rgb) if white_is_zero else rgb


@contextmanager
def _opened(path: str | Path | bytes) -> Iterator[ImageFile.ImageFile]:
    opened = BytesIO(path) if isinstance(path, bytes) else open_image(path)
    with opened as file, Image.open(file) as image:
        yield image


def digest_of(content: bytes) -> str:
    """The digest that identifies an image, wherever its file is."""
    return blake2b(content, digest_size=16).hexdigest()


def digests_of(paths: Sequence[str], strict: bool) -> tuple[list[str], list[str]]:
    """The digest of each file, empty if it cannot be read, and the unreadable files with the reason."""
    found, failed = read_all(paths, lambda row: digest_of(read_image(paths[row])), strict)
    return [found.get(row, "") for row in range(len(paths))], failed


def decode_all(
    paths: Sequence[str],
    size: Size,
    strict: bool,
    reading: Reading | None = None,
    keep: bool = True,
    crop: bool = False,
    contents: Sequence[bytes] | None = None,
    digests: list[str] | None = None,
) -> tuple[Tensor, list[int], list[str]]:
    """Files → pixels (n, 3, H, W), the rows of `paths` that could be decoded, and the others with the reason.

    With `strict`, the first file that cannot be decoded is an error. Without `keep`, there are no pixels.
    Pass `contents` if the files have already been read, and a list for the `digests` of the decoded ones.
    """
    pixels = shared(len(paths) if keep else 0, 3, *size)

    def read(row: int) -> tuple[list[int], str]:
        peaks: list[int] = []
        if contents:
            given: str | bytes = contents[row]
        else:
            given = paths[row] if digests is None else read_image(paths[row])
        image = decode(given, size, peaks.append, crop)
        if keep:
            pixels[row] = image.transpose(2, 0, 1)
        return peaks, digest_of(given) if isinstance(given, bytes) else ""

    kept: list[int] = []
    failed: list[str] = []
    for part in read_each(paths, read, strict, remote=not contents and is_remote(paths)):
        kept += part.kept
        failed += part.failed
        if digests is not None:
            digests += (digest for _, digest in part.results)
        if reading:
            reading.peaks += chain(*(peaks for peaks, _ in part.results))
            reading.count(len(part.rows))
    whole = not keep or len(kept) == len(paths)
    return torch.from_numpy(pixels if whole else pixels[kept]), kept, failed


def check_any_read(kept: Sequence[int], failed: Sequence[str]) -> None:
    """Refuse files of which none can be read."""
    if failed and not kept:
        raise DataError(f"None of {len(failed):,} image files can be read. The first is {failed[0]}.")


def stored_sizes(paths: Sequence[str]) -> list[Size | None]:
    """(height, width) of each file before any EXIF rotation; None without a readable header."""

    def size(row: int) -> Size:
        with _opened(paths[row]) as image:
            return image.height, image.width

    found, _ = read_all(paths, size)
    return [found.get(row) for row in range(len(paths))]  # decoding reports why there is none


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
