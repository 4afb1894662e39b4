"""Image files as a pretrained encoder takes them: undistorted squares, in one or more views."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from newfound.core.encoder import Preprocessing
from newfound.data.augment.geometry import Resized
from newfound.data.decode import Pixels, check_regular, read_each, upright_rgb

RANDOM = Resized(0.4, 1.0)
"""The boxes of further views."""
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@dataclass(frozen=True)
class Crops:
    """The crops of some files; those that could not be read are left out."""

    pixels: Tensor
    """(n, C, S, S, 3) uint8, as Pillow has them."""
    kept: list[int]
    """The rows of the files that were read."""
    digests: list[str]
    """Of their contents."""
    failed: list[str]
    """The others, each with the reason."""


def digest_of(content: bytes) -> str:
    """What an image is known by, wherever it lies."""
    return blake2b(content, digest_size=16).hexdigest()


def num_crops(views: int) -> int:
    """How many crops make so many views: the second view mirrors the first."""
    return max(views - 1, 1)


def crop_all(
    paths: Sequence[str],
    preprocessing: Preprocessing,
    views: int,
    strict: bool,
    note: Callable[[int], None] | None = None,
) -> Crops:
    """Decode files, on all cores; with `strict` the first that cannot be decoded is an error."""
    side = preprocessing.size
    pixels = np.empty((len(paths), num_crops(views), side, side, 3), np.uint8)
    digests = [""] * len(paths)

    def read(row: int) -> None:
        check_regular(paths[row])
        content = Path(paths[row]).read_bytes()
        seed = digest_of(content)
        with Image.open(BytesIO(content)) as image:
            crops = _crops(
                upright_rgb(image, preprocessing.shorter or side, note), preprocessing, views, seed
            )
        np.stack(crops, out=pixels[row])
        digests[row] = seed

    failures = list(read_each([os.fspath(path) for path in paths], read, strict))
    kept = [row for row, failure in enumerate(failures) if not failure]
    whole = len(kept) == len(paths)
    return Crops(
        torch.from_numpy(pixels if whole else pixels[kept]),
        kept,
        [digests[row] for row in kept],
        list(filter(None, failures)),
    )


def _crops(image: Image.Image, look: Preprocessing, views: int, seed: str) -> list[Pixels]:
    """The centre, then boxes drawn by `seed`, half of them mirrored, each (S, S, 3)."""
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
