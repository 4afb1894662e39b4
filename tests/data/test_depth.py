"""Files with more than 8 bits: which are, how bright they are, and when that looks wrong."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from newfound.core.errors import DataError
from newfound.data.decode import decode
from newfound.data.depth import depth_warnings
from tests.data.conftest import png_16_bit_colour, tiff_16_bit


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


@pytest.mark.parametrize(("photometric", "grey"), [(1, 200), (0, 55)])
def test_zero_may_be_white(tmp_path: Path, photometric: int, grey: int) -> None:
    (tmp_path / "a.tif").write_bytes(tiff_16_bit(photometric, 200 * 257))
    assert decode(tmp_path / "a.tif").tolist() == [[3 * [grey]]]
    assert noted(tmp_path / "a.tif") == [200 * 257] * photometric


def test_colours_in_planes_of_16_bit_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tif").write_bytes(tiff_16_bit(2, 60000, 30000, 0))
    with pytest.raises(DataError, match="its colours are planes of more than 8 bits; save it with 8"):
        decode(tmp_path / "a.tif")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_8_bits_are_not_noted(tmp_path: Path, mode: str) -> None:
    Image.new(mode, (8, 8)).save(tmp_path / "a.png")
    assert noted(tmp_path / "a.png") == []


@pytest.mark.parametrize("largest", [[], [65535], [16384], [12, *9 * [16384], 40000]])
def test_what_spans_its_range_is_right(largest: list[int]) -> None:
    assert depth_warnings(largest) == ()


@pytest.mark.parametrize(("top", "looks"), [(4095, "dark"), (16383, "dark"), (65536, "bright")])
def test_what_does_not_is_told_once(top: int, looks: str) -> None:
    (warning,) = depth_warnings([top])
    assert warning == (
        f"1 of 1 files with more than 8 bits look too {looks}: their values must span 0 (black) to 65,535 "
        f"(white); got {top:,} as the largest; convert all of them to 8 bit alike, new images as those that "
        "a run was trained on"
    )


def test_files_that_span_their_range_do_not_hide_those_that_do_not() -> None:
    (warning,) = depth_warnings([*8 * [65535], 4095, 12])
    assert warning.startswith("2 of 10 files")
    assert "got 4,095 as the largest" in warning
