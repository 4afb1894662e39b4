"""Files with more than 8 bits: which are, how bright they are, and when that looks wrong."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from newfound.data.decode import decode
from newfound.data.depth import depth_warnings
from tests.data.conftest import png_16_bit_colour


def noted(path: Path) -> list[int]:
    largest: list[int] = []
    decode(path, (4, 4), largest.append)
    return largest


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.pgm"])
def test_the_largest_value_of_16_bit_grey_before_it_is_resized(tmp_path: Path, name: str) -> None:
    values = np.zeros((64, 64), np.uint16)
    values[5, 7] = 4095
    Image.fromarray(values).save(tmp_path / name)
    assert noted(tmp_path / name) == [4095]


def test_32_bit_grey(tmp_path: Path) -> None:
    Image.fromarray(np.full((8, 8), 255, np.int32)).save(tmp_path / "a.tif")
    assert noted(tmp_path / "a.tif") == [255]


def test_16_bit_colour_to_its_high_byte(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png_16_bit_colour(100, 4095, 4000))
    assert noted(tmp_path / "a.png") == [4095]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_8_bits_are_not_noted(tmp_path: Path, mode: str) -> None:
    Image.new(mode, (8, 8)).save(tmp_path / "a.png")
    assert noted(tmp_path / "a.png") == []


@pytest.mark.parametrize("largest", [[], [65535], [16384], [12, 40000]])
def test_what_spans_its_range_is_right(largest: list[int]) -> None:
    assert depth_warnings(largest) == ()


@pytest.mark.parametrize(("top", "looks"), [(4095, "dark"), (16383, "dark"), (65536, "bright")])
def test_what_does_not_is_told_once(top: int, looks: str) -> None:
    (warning,) = depth_warnings([12, top, 7])
    assert warning == (
        f"3 files with more than 8 bits must span 0 (black) to 65,535 (white); got {top:,} as the largest "
        f"value, so they look too {looks}; convert them to 8 bit, all alike"
    )
