"""Small pictures for pages."""

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 72
"""Pixels, at most."""
TINY = 16
"""Up to this side images are kept without loss, and shown with their pixels."""


def thumbnail(pixels: NDArray[np.uint8]) -> tuple[bytes, str]:
    """(3, H, W) bytes → a small picture and its media type."""
    image = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    image.thumbnail((SIDE, SIDE))
    out, kind = io.BytesIO(), "PNG" if max(image.size) <= TINY else "JPEG"
    image.save(out, kind, quality=80)
    return out.getvalue(), f"image/{kind.lower()}"


def data_uri(pixels: NDArray[np.uint8]) -> str:
    """(3, H, W) bytes → the `src` of an <img> on a page that carries its pictures within itself."""
    content, kind = thumbnail(pixels)
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
