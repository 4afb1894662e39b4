"""Every usual kind of image file, written by Pillow or by hand, gives the colours a person would see."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from newfound.core.errors import DataError
from newfound.data.decode import Reading, decode, decode_all, stored_sizes
from newfound.data.files import image_files
from tests.data.conftest import png_16_bit_colour, tiff_16_bit

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def palette(index: int) -> Image.Image:
    image = Image.new("P", (4, 4), index)
    image.putpalette([*RED, *GREEN])
    return image


@pytest.mark.parametrize(
    ("image", "options", "seen"),
    [
        (Image.new("L", (5, 4), 90), {}, 90),
        (Image.new("1", (4, 4), 1), {}, 255),
        (palette(1), {}, GREEN),
        (palette(0), {"transparency": 0}, 255),
        (Image.new("RGBA", (4, 4), (*BLUE, 0)), {}, 255),
        (Image.new("RGBA", (4, 4), (*BLUE, 255)), {}, BLUE),
        (Image.new("LA", (4, 4), (0, 51)), {}, 204),
    ],
)
def test_modes(tmp_path: Path, image: Image.Image, options: dict[str, int], seen: object) -> None:
    """Grey is replicated, transparency composited onto white, and none has more than 8 bits."""
    image.save(tmp_path / "a.png", **options)  # type: ignore[arg-type]
    largest: list[int] = []
    pixels = decode(tmp_path / "a.png", note=largest.append)
    assert pixels.shape == (image.height, image.width, 3)
    assert (pixels == seen).all()
    assert largest == []


@pytest.mark.parametrize("suffix", ["gif", "png", "webp", "jpg"])
def test_an_animation_gives_its_first_frame_and_cmyk_its_colours(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    if suffix == "jpg":
        Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(path, quality=100)
    else:
        first, second = Image.new("RGB", (8, 8), RED), Image.new("RGB", (8, 8), GREEN)
        first.save(path, save_all=True, append_images=[second], duration=50, lossless=True)
    assert np.abs(decode(path).astype(int) - RED).max() <= 3


def test_photographs_of_iphones(tmp_path: Path) -> None:
    pytest.importorskip("pillow_heif")
    image = Image.new("RGB", (64, 48), RED)
    image.paste(BLUE, (0, 0, 32, 48))
    image.save(tmp_path / "a.heic", quality=95)
    assert image_files(tmp_path) == [str(tmp_path / "a.heic")]
    pixels, kept, _ = decode_all([str(tmp_path / "a.heic")], (48, 64), strict=True)
    assert (kept, stored_sizes([str(tmp_path / "a.heic")])) == ([0], [(48, 64)])
    assert np.abs(pixels[0, :, 24, 48].numpy().astype(int) - RED).max() <= 8
    assert np.abs(pixels[0, :, 24, 16].numpy().astype(int) - BLUE).max() <= 8


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


def test_images_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("F", (4, 4), 0.5).save(tmp_path / "floats.tif")
    (tmp_path / "planes.tif").write_bytes(tiff_16_bit(2, 60000, 30000, 0))
    Image.new("L", (40, 40)).save(tmp_path / "large.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 600)
    paths = [str(tmp_path / name) for name in ("floats.tif", "planes.tif", "large.png")]
    reasons = decode_all(paths, (8, 8), strict=False)[2]
    for reason, words in zip(reasons, ("floating-point", "planes", "more than 1,200 pixels"), strict=True):
        assert words in reason


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
    for line, words in zip(skipped, ("truncated", "not an image", "No such file"), strict=True):
        assert words in line
    assert stored_sizes(paths) == [(64, 64), (64, 64), None, None]
    with pytest.raises(DataError, match=r"cut\.png: .*truncated.*strict"):
        decode_all(paths, (64, 64), strict=True)


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.pgm"])
def test_16_bit_grey(tmp_path: Path, name: str) -> None:
    """It spans the whole range, and its largest value is noted before it is resized."""
    values = np.array([[0, 257], [32896, 65535]], np.uint16)
    Image.fromarray(values).save(tmp_path / name)
    assert decode(tmp_path / name)[:, :, 0].tolist() == [[0, 1], [128, 255]]
    dark = np.zeros((64, 64), np.uint16)
    dark[5, 7] = 4095
    Image.fromarray(dark).save(tmp_path / name)
    largest: list[int] = []
    decode(tmp_path / name, (4, 4), largest.append)
    assert largest == [4095]


def test_16_bit_colour(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png_16_bit_colour(0xFF00, 0x8000, 0x0100))
    assert (decode(tmp_path / "a.png") == (255, 128, 1)).all()


@pytest.mark.parametrize(("photometric", "grey"), [(1, 200), (0, 55)])
def test_zero_may_be_white(tmp_path: Path, photometric: int, grey: int) -> None:
    (tmp_path / "a.tif").write_bytes(tiff_16_bit(photometric, 200 * 257))
    largest: list[int] = []
    assert decode(tmp_path / "a.tif", note=largest.append).tolist() == [[3 * [grey]]]
    assert largest == [200 * 257] * photometric


@pytest.mark.parametrize(
    ("peaks", "words"),
    [
        ([], None),
        ([65535], None),
        ([12, *9 * [16384], 40000], None),
        ([16383], "1 of 1 files with more than 8 bits look too dark"),
        ([*8 * [65535], 4095, 12], "2 of 10 files"),
    ],
)
def test_deep_files_that_use_little_of_their_range(peaks: list[int], words: str | None) -> None:
    reading = Reading(len(peaks))
    reading.peaks = peaks
    assert len(reading.warnings) == (words is not None)
    assert all(words in warning for warning in reading.warnings if words)


def test_progress_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "newfound")
    seconds = map(float, range(100))
    monkeypatch.setattr("newfound.data.decode.monotonic", lambda: next(seconds))
    reading = Reading(12)
    for _ in range(12):
        reading.count(1)
    assert caplog.messages == ["Reading images 5/12, 7 s left", "Reading images 10/12, 2 s left"]


def test_large_images_are_decoded_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = list[str]()
    monkeypatch.setattr("newfound.data.decode.LARGE", 100)
    monkeypatch.setattr("newfound.data.decode.check_alone", lambda: alone.append(""))
    for side in (9, 10, 11):
        Image.new("RGB", (side, side)).save(tmp_path / f"{side}.png")
        decode(tmp_path / f"{side}.png", (4, 4))
    assert len(alone) == 1
