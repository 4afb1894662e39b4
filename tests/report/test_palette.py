"""Colours that colour-blind readers can tell apart, names that fit a figure, and thumbnails."""

import base64
import io
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from newfound.report.palette import SIDE, colour, data_uri, numbered

# Machado, Oliveira and Fernandes (2009), full severity, on linear RGB.
VISION = {
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
}
TO_XYZ = np.array([[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8728]])
"""Relative to the white point, so that white is (1, 1, 1)."""


@pytest.mark.parametrize("vision", VISION)
def test_any_two_of_the_ten_colours_differ_clearly(vision: str) -> None:
    rgb = np.array([to_rgb(colour(index)) for index in range(10)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(TO_XYZ @ np.clip(np.array(VISION[vision]) @ linear.T, 0.009, 1))
    lab = np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)
    assert min(np.linalg.norm(a - b) for a, b in combinations(lab, 2)) > 12


def test_long_names_are_cut_and_all_are_numbered() -> None:
    assert numbered(["cat", "a name that would never fit", "2"]) == ["0 cat", "1 a name that would…", "2"]


@pytest.mark.parametrize(("side", "kind"), [(8, "PNG"), (300, "JPEG")])
def test_a_thumbnail_is_the_image(side: int, kind: str) -> None:
    header, code = data_uri(np.full((3, side, 2 * side), 90, np.uint8)).split(",")
    image = Image.open(io.BytesIO(base64.b64decode(code)))
    assert (header, image.format) == (f"data:image/{kind.lower()};base64", kind)
    assert image.size == ((16, 8) if side == 8 else (SIDE, SIDE // 2))
    assert abs(np.asarray(image).astype(int) - 90).max() <= 2
