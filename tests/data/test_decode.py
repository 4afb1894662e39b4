"""Every usual kind of image file, written by Pillow or by hand, gives the colours a person would see."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from newfound.core.errors import DataError
from newfound.data.decode import decode, decode_all, stored_sizes
from tests.data.conftest import png_16_bit_colour

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def test_grey_is_replicated(tmp_path: Path) -> None:
    Image.new("L", (5, 4), 90).save(tmp_path / "a.png")
    pixels = decode(tmp_path / "a.png")
    assert pixels.shape == (4, 5, 3)
    assert (pixels == 90).all()


def test_one_bit(tmp_path: Path) -> None:
    Image.new("1", (4, 4), 1).save(tmp_path / "a.png")
    assert (decode(tmp_path / "a.png") == 255).all()


def test_palette(tmp_path: Path) -> None:
    image = Image.new("P", (4, 4), 1)
    image.putpalette([*RED, *GREEN])
    image.save(tmp_path / "a.png")
    assert (decode(tmp_path / "a.png") == GREEN).all()


@pytest.mark.parametrize(("opacity", "seen"), [(0, (255, 255, 255)), (255, BLUE)])
def test_transparency_is_laid_on_white(tmp_path: Path, opacity: int, seen: tuple[int, int, int]) -> None:
    Image.new("RGBA", (4, 4), (*BLUE, opacity)).save(tmp_path / "a.png")
    assert (decode(tmp_path / "a.png") == seen).all()


def test_half_transparency_blends_with_white(tmp_path: Path) -> None:
    Image.new("LA", (4, 4), (0, 51)).save(tmp_path / "a.png")
    assert (decode(tmp_path / "a.png") == 204).all()


def test_transparent_palette_entry_is_white(tmp_path: Path) -> None:
    image = Image.new("P", (4, 4), 0)
    image.putpalette([*RED, *GREEN])
    image.save(tmp_path / "a.png", transparency=0)
    assert (decode(tmp_path / "a.png") == 255).all()


def test_cmyk(tmp_path: Path) -> None:
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(tmp_path / "a.jpg", quality=100)
    assert np.abs(decode(tmp_path / "a.jpg").astype(int) - RED).max() <= 3


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_16_bit_grey_spans_the_whole_range(tmp_path: Path, suffix: str) -> None:
    values = np.array([[0, 257], [32896, 65535]], np.uint16)
    Image.fromarray(values).save(tmp_path / f"a.{suffix}")
    assert decode(tmp_path / f"a.{suffix}")[:, :, 0].tolist() == [[0, 1], [128, 255]]


def test_16_bit_colour(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png_16_bit_colour(0xFF00, 0x8000, 0x0100))
    assert (decode(tmp_path / "a.png") == (255, 128, 1)).all()


def test_exif_rotation_is_applied(tmp_path: Path) -> None:
    image = Image.new("RGB", (8, 4), RED)
    image.paste(BLUE, (0, 0, 4, 4))  # blue left of red; turned a quarter clockwise, blue is on top
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "a.png", exif=exif)
    pixels = decode(tmp_path / "a.png")
    assert pixels.shape == (8, 4, 3)
    assert (pixels[:4] == BLUE).all()
    assert (pixels[4:] == RED).all()


@pytest.mark.parametrize("suffix", ["gif", "png", "webp"])
def test_an_animation_gives_its_first_frame(tmp_path: Path, suffix: str) -> None:
    first, second = Image.new("RGB", (8, 8), RED), Image.new("RGB", (8, 8), GREEN)
    first.save(tmp_path / f"a.{suffix}", save_all=True, append_images=[second], duration=50, lossless=True)
    assert np.abs(decode(tmp_path / f"a.{suffix}").astype(int) - RED).max() <= 2


def test_floats_without_a_range_are_refused(tmp_path: Path) -> None:
    Image.new("F", (4, 4), 0.5).save(tmp_path / "a.tif")
    with pytest.raises(DataError, match=r"a\.tif: its pixels are floats"):
        decode(tmp_path / "a.tif")


def test_images_that_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 600)
    Image.new("L", (40, 40)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png: more than 1,200 pixels, .*; scale it down"):
        decode(tmp_path / "a.png")


def test_large_images_are_not_warned_of(tmp_path: Path) -> None:
    """In a process of its own, for pytest has filters of its own."""
    Image.new("L", (40, 40)).save(tmp_path / "a.png")
    code = "from newfound.data import decode; decode.Image.MAX_IMAGE_PIXELS = 900; decode.decode('a.png')"
    call = [sys.executable, "-c", code]
    done = subprocess.run(call, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stderr == ""


def test_resizing_is_antialiased(tmp_path: Path) -> None:
    stripes = np.zeros((64, 64), np.uint8)
    stripes[:, ::2] = 255
    Image.fromarray(stripes).save(tmp_path / "a.png")
    pixels = decode(tmp_path / "a.png", (8, 8))
    assert pixels.shape == (8, 8, 3)
    assert np.abs(pixels.astype(int) - 127).max() <= 6


def test_a_large_jpeg_read_at_a_lower_scale_differs_little(tmp_path: Path) -> None:
    x = np.linspace(0, 255, 640)
    smooth = np.stack([np.add.outer(x[:480], x) / 2, np.tile(x, (480, 1)), np.tile(x[::-1], (480, 1))], -1)
    Image.fromarray(smooth.astype(np.uint8)).save(tmp_path / "a.jpg", quality=95)
    with Image.open(tmp_path / "a.jpg") as whole:
        expected = np.asarray(whole.resize((32, 32), Image.Resampling.BILINEAR), dtype=int)
    assert np.abs(decode(tmp_path / "a.jpg", (32, 32)) - expected).max() <= 3


def test_what_cannot_be_decoded_is_listed(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    for name in ("good.png", "cut.png"):
        Image.fromarray(noise).save(tmp_path / name)
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:500])
    (tmp_path / "text.png").write_text("no image")
    paths = [str(tmp_path / name) for name in ("cut.png", "good.png", "text.png", "gone.png")]
    pixels, kept, skipped = decode_all(paths, (64, 64), strict=False)
    assert kept == [1]
    assert np.array_equal(pixels[0].permute(1, 2, 0).numpy(), noise)
    assert [line.split(": ")[0] for line in skipped] == [paths[0], paths[2], paths[3]]
    assert "truncated" in skipped[0]
    assert "not an image" in skipped[1]
    assert "no such file" in skipped[2]
    with pytest.raises(DataError, match=r"cut\.png: .*truncated.*strict"):
        decode_all(paths, (64, 64), strict=True)


def test_stored_sizes_are_none_without_a_header(tmp_path: Path) -> None:
    Image.new("RGB", (30, 20)).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_text("no image")
    assert stored_sizes([str(tmp_path / "a.png"), str(tmp_path / "b.png")]) == [(20, 30), None]
