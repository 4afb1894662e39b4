"""Small pictures for pages."""

import base64
import io
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 72
"""Pixels, at most."""
TINY = 16
"""Up to this side images are stored without loss, and shown with visible pixels."""


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
