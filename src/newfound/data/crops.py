"""Crops images to what a pretrained encoder takes: undistorted squares, in one or more views."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import chain

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from newfound.core.encoder import Preprocessing
from newfound.data.augment.geometry import Resized
from newfound.data.decode import Pixels, Reading, digest_of, upright_rgb
from newfound.data.workers import AHEAD, num_workers, read_each, shared

RANDOM = Resized(0.4, 1.0)
"""The boxes of further views."""
Opened = tuple[Image.Image, str, list[int]]
"""An image in RGB, its digest, and the largest value if it is grey with more than 8 bits."""
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@dataclass(frozen=True)
class Crops:
    """The crops of some images; files that could not be read are left out."""

    pixels: Tensor
    """(n, C, S, S, 3) uint8 in Pillow's layout; the next batch may overwrite them."""
    kept: list[int]
    """The rows of the files that could be read."""
    digests: list[str]
    """Digests of their contents."""
    failed: list[str]
    """The files that could not be read, each with the reason."""


def crop_each(
    names: Sequence[str],
    opened: Callable[[int], Opened],
    preprocessing: Preprocessing,
    views: int,
    batch: int,
    strict: bool,
    reading: Reading,
) -> Iterator[Crops]:
    """Crop images on all cores, `batch` at a time, in order; with `strict`, one that fails is an error."""
    side, crops = preprocessing.size, max(views - 1, 1)  # the second view mirrors the first
    places = (AHEAD * num_workers(len(names), batch) + 1) * batch
    pixels = shared(places, crops, side, side, 3)

    def read(row: int) -> tuple[str, list[int]]:
        image, digest, peaks = opened(row)
        np.stack(_crops(image, preprocessing, views, digest), out=pixels[row % places])
        return digest, peaks

    for part in read_each(names, read, strict, batch):
        first = part.rows[0] % places
        whole = len(part.kept) == len(part.rows)
        taken = slice(first, first + len(part.kept)) if whole else [row % places for row in part.kept]
        reading.peaks += chain(*(peaks for _, peaks in part.results))
        reading.count(len(part.rows))
        yield Crops(
            torch.from_numpy(pixels[taken]), part.kept, [each for each, _ in part.results], part.failed
        )


def open_content(content: bytes, side: int) -> Opened:
    """The image in a file's content; it may be decoded smaller if only `side` pixels are needed."""
    peaks: list[int] = []
    with Image.open(BytesIO(content)) as image:
        return upright_rgb(image, side, peaks.append), digest_of(content), peaks


def _crops(image: Image.Image, look: Preprocessing, views: int, seed: str) -> list[Pixels]:
    """The centre crop, then random ones drawn with `seed`, half of them mirrored, each (S, S, 3)."""
    side, (width, height) = (look.size, look.size), image.size
    if look.shorter is None:
        boxes = [(0.0, 0.0, float(width), float(height))]
    else:
        # The centre of the image as it would be resized; Pillow looks at pixels outside the box as well.
        scaled = [int(look.shorter * each / min(width, height)) for each in image.size]
        left, top = ((each - look.size) // 2 for each in scaled)
        x, y = width / scaled[0], height / scaled[1]
        boxes = [(left * x, top * y, (left + look.size) * x, (top + look.size) * y)]
    mirrored = [False]
    if views > 2:
        random = torch.Generator().manual_seed(int(seed[:15], 16))
        u = torch.rand(views - 2, RANDOM.noise + 1, generator=random)
        drawn = RANDOM.draw(u[:, 1:], height, width, look.size)
        drawn[:, 2:] += drawn[:, :2]
        boxes += [(x0, y0, x1, y1) for x0, y0, x1, y1 in drawn.tolist()]
        mirrored += (u[:, 0] < 0.5).tolist()
    cut = [np.asarray(image.resize(side, FILTERS[look.interpolation], box)) for box in boxes]
    return [crop[:, ::-1] if flip else crop for crop, flip in zip(cut, mirrored, strict=True)]
