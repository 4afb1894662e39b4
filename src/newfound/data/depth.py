"""Files with more than 8 bits, of which some use only a small part of their range."""

import re
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageFile

WHITE = 65535
"""The value that is read as white."""
DIM = WHITE // 4
"""Where no value is larger, little is left to be seen."""


def is_deep(image: ImageFile.ImageFile) -> bool:
    """Whether a file has more than 8 bits a channel; to be asked before its pixels are read."""
    # of colour Pillow keeps the high bytes, and nothing but the name of its decoder tells
    return is_wide(image) or re.search(";16[BLN]", str(image.tile[:1])) is not None


def is_wide(image: Image.Image) -> bool:
    """Whether it is grey with more than 8 bits, which some versions of Pillow widen to 32."""
    return image.mode.startswith("I")


def brightest(image: Image.Image) -> int:
    """The largest value of a file with more than 8 bits; of colour the largest that its high bytes allow."""
    if is_wide(image):
        return int(np.asarray(image).max())
    return 256 * int(np.asarray(image.convert("RGB")).max()) + 255


def depth_warnings(largest: Sequence[int]) -> tuple[str, ...]:
    """What looks wrong with files of more than 8 bits, whose largest values are given."""
    top = max(largest, default=WHITE)
    if DIM < top <= WHITE:
        return ()
    files = f"{len(largest):,} file{'s' * (len(largest) > 1)}"
    return (
        f"{files} with more than 8 bits must span 0 (black) to {WHITE:,} (white); got {top:,} as the largest "
        f"value, so they look too {'dark' if top <= DIM else 'bright'}; convert them to 8 bit, all alike",
    )
