"""Pictures of a run's images: the original files, scaled, and what the network saw where there are none."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pytest
import torch
from PIL import Image

from newfound.core.errors import DataError
from newfound.data.images import ResidentImages
from newfound.data.vectors import Vectors
from newfound.run.trained import Pictures


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A red photograph that lies on its side, and a white icon."""
    paths = [str(tmp_path / name) for name in ("photograph.jpg", "icon.png")]
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.new("RGB", (4000, 3000), "red").save(paths[0], exif=turned)
    Image.new("L", (8, 6), "white").save(paths[1])
    return paths


def seen(names: Sequence[str]) -> ResidentImages:
    """The same images as a network sees them: black, squeezed into 48 pixels."""
    return ResidentImages(torch.zeros(len(names), 3, 48, 48, dtype=torch.uint8), names)


def opened(pictures: Pictures, rows: Sequence[int], side: int) -> list[Image.Image]:
    return [Image.open(BytesIO(each)) for each in pictures(rows, side)]


def test_original_files_keep_their_proportions(files: list[str]) -> None:
    photograph, icon = opened(Pictures(seen(files)), [0, 1], 160)
    assert (photograph.format, photograph.size) == ("JPEG", (120, 160))
    assert photograph.getpixel((60, 80)) == (254, 0, 0)
    assert (icon.format, icon.size) == ("PNG", (8, 6))
    (large,) = opened(Pictures(seen(files)), [0], 2000)
    assert large.size == (1500, 2000)


def test_what_the_network_saw_where_there_is_no_file(files: list[str]) -> None:
    Path(files[0]).unlink()
    for images in (seen(files), seen(["image-0", "image-1"])):
        picture = opened(Pictures(images), [0], 24)[0]
        assert (picture.size, picture.getpixel((12, 12))) == ((24, 24), (0, 0, 0))


def test_vectors_show_their_files_or_nothing(files: list[str]) -> None:
    pictures = Pictures(Vectors(torch.zeros(2, 1, 4), files))
    assert opened(pictures, [1], 160)[0].size == (8, 6)
    Path(files[1]).unlink()
    with pytest.raises(DataError, match=r"cannot be read: .*icon\.png"):
        pictures([1], 160)
    with pytest.raises(DataError, match="no image files"):
        Pictures(Vectors(torch.zeros(1, 1, 4), ["vector-0"]))
