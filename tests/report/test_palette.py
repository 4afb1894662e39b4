"""Marks that colour-blind readers can tell apart, and names that fit a figure."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from newfound.report.maps import UNSORTED_MARK, mark, numbered

# Machado, Oliveira and Fernandes (2009), full severity, on linear RGB.
VISION = {
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
}
TO_XYZ = np.array([[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8728]])
"""Relative to the white point, so that white is (1, 1, 1)."""


def linear(colours: Sequence[str]) -> NDArray[np.floating]:
    rgb = np.array([to_rgb(each) for each in colours])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


MARKS = [*(mark(index, known=False) for index in range(10)), UNSORTED_MARK]
LIGHT, DARK = [each.light for each in MARKS], [each.dark for each in MARKS]


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISION)
def test_any_two_of_the_colours_differ_clearly(vision: str, colours: Sequence[str]) -> None:
    seen = np.array(VISION[vision]) @ linear(colours).T
    x, y, z = np.cbrt(TO_XYZ @ np.clip(seen, 0.009, 1))
    lab = np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)
    assert min(np.linalg.norm(a - b) for a, b in combinations(lab, 2)) > 16


@pytest.mark.parametrize(("colours", "background"), [(LIGHT, "#ffffff"), (DARK, "#1d2026")])
def test_all_stand_out_from_the_background(colours: Sequence[str], background: str) -> None:
    """Contrast of at least 3 to 1, as the WCAG ask of graphics."""
    *own, page = 0.05 + linear([*colours, background]) @ [0.2126, 0.7152, 0.0722]
    assert all(max(each, page) / min(each, page) >= 3 for each in own)


def test_sixty_known_and_sixty_novel_classes_have_marks_of_their_own() -> None:
    marks = [mark(index, known) for known in (True, False) for index in range(60)]
    assert len({*marks, UNSORTED_MARK}) == 121
    assert UNSORTED_MARK.path not in {each.path for each in marks}


def test_long_names_are_cut_and_all_are_numbered() -> None:
    assert numbered(["cat", "a name that would never fit", "2"]) == ["0 cat", "1 a name that would…", "2"]
