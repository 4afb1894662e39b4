"""Files with more than 8 bits, of which some use only a small part of their range."""

import re
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageFile

WHITE = 65535
"""The value that is read as white."""
DIM = WHITE // 4
"""Where no value is larger, little is left to be seen."""
BITS, PHOTOMETRIC, PLANES = 258, 262, 284
"""Tags of a TIFF file."""
MANY = 0.1
"""The share of files that look wrong from which on it is no chance."""


def is_deep(image: ImageFile.ImageFile) -> bool:
    """Whether a file has more than 8 bits a channel; to be asked before its pixels are read."""
    # of colour Pillow keeps the high bytes, and nothing but the name of its decoder tells
    return is_wide(image) or re.search(";16[BLN]", str(image.tile[:1])) is not None


def has_white_zero(image: ImageFile.ImageFile) -> bool:
    """Whether 0 is white in grey with more than 8 bits, as some TIFF files have it and Pillow does not heed.

    Colour with more than 8 bits in planes of their own, which Pillow takes for 8 bits, is refused.
    """
    tags = getattr(image, "tag_v2", {})
    if tags.get(PLANES) == 2 and max(tags.get(BITS, [8])) > 8:
        raise ValueError("its colours are planes of more than 8 bits; save it with 8, or not in planes")
    return is_wide(image) and tags.get(PHOTOMETRIC) == 0


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
    odd = {"dark": [top for top in largest if top <= DIM], "bright": [top for top in largest if top > WHITE]}
    return tuple(
        f"{len(tops):,} of {len(largest):,} files with more than 8 bits look too {how}: their values must "
        f"span 0 (black) to {WHITE:,} (white); got {max(tops):,} as the largest; convert all of them to 8 "
        "bit alike, new images as those that a run was trained on"
        for how, tops in odd.items()
        if len(tops) >= max(1, MANY * len(largest))
    )
