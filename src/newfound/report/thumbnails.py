"""Small pictures that a page carries within itself."""

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 72
"""Pixels, at most."""


def data_uri(pixels: NDArray[np.uint8]) -> str:
    """(3, H, W) bytes → what the `src` of an <img> may be: lossless where the image is tiny."""
    image = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    image.thumbnail((SIDE, SIDE))
    out, kind = io.BytesIO(), "PNG" if max(image.size) <= 16 else "JPEG"
    image.save(out, kind, quality=80)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(out.getvalue()).decode()}"
