"""What figures and pages share: colours that colour-blind readers can tell apart, names, thumbnails."""

import base64
import io
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 72
"""Pixels of a thumbnail, at most."""
TINY = 16
"""Up to this side images are stored without loss, and shown with visible pixels."""
# Paul Tol's muted scheme, its pale yellow made stronger to be seen on white, and near-black.
_COLOURS = (
    *("#332288", "#88ccee", "#117733", "#eebb33", "#cc6677"),
    *("#882255", "#44aa99", "#999933", "#aa4499", "#222222"),
)


def colour(index: int) -> str:
    """The colour of a class; beyond ten they repeat, and the index drawn beside them tells classes apart."""
    return _COLOURS[index % len(_COLOURS)]


def numbered(names: Sequence[str]) -> list[str]:
    """Class names after their index, as in the figures; long ones are cut, and a dollar starts no formula."""
    short = ((name if len(name) <= 18 else f"{name[:17]}…").replace("$", r"\$") for name in names)
    return [name if name == str(index) else f"{index} {name}" for index, name in enumerate(short)]


class Pictures(Protocol):
    """The unlabelled images of a run, for people to look at."""

    @property
    def size(self) -> int:
        """The side of the images as the network saw them."""

    def __call__(self, rows: NDArray[np.integer], /) -> list[NDArray[np.uint8]]:
        """(m,) → m images (3, H, W)."""


def thumbnail(pixels: NDArray[np.uint8]) -> tuple[bytes, str]:
    """(3, H, W) → a small picture and its media type."""
    image = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    image.thumbnail((SIDE, SIDE))
    out, kind = io.BytesIO(), "PNG" if max(image.size) <= TINY else "JPEG"
    image.save(out, kind, quality=80)
    return out.getvalue(), f"image/{kind.lower()}"


def data_uri(pixels: NDArray[np.uint8]) -> str:
    """(3, H, W) → the `src` of an <img> on a page that embeds its pictures."""
    content, kind = thumbnail(pixels)
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
