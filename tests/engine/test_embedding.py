"""A pretrained encoder applied to files and image sets."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from newfound.core.encoder import Encoder, Preprocessing
from newfound.core.errors import DataError
from newfound.data.images import ResidentImages
from newfound.engine.embedding import Embedder

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
LOOK = Preprocessing(16, MEAN, STD, shorter=20)
CPU = torch.device("cpu")


def encoder(look: Preprocessing = LOOK) -> Encoder:
    """Features are the pixels of the crop themselves."""
    return Encoder.of(nn.Flatten(), 3 * look.size**2, look)


def embedder(look: Preprocessing = LOOK, views: int = 1) -> Embedder:
    return Embedder(encoder(look), CPU, torch.float32, views)


def photographs(folder: Path, sizes: list[tuple[int, int]]) -> list[str]:
    """Noise that no filter takes out of 0..255."""
    random = np.random.default_rng(0)
    paths = []
    for place, (width, height) in enumerate(sizes):
        paths.append(str(folder / f"{place}.png"))
        Image.fromarray(random.integers(96, 160, (height, width, 3), np.uint8)).save(paths[-1])
    return paths


def by_hand(path: str, look: Preprocessing) -> Tensor:
    """Pillow's resize of the shorter side, then its crop of the centre."""
    image = Image.open(path).convert("RGB")
    kind = Image.Resampling[look.interpolation.upper()]
    if look.shorter is None:
        image = image.resize((look.size, look.size), kind)
    else:
        width, height = (int(look.shorter * side / min(image.size)) for side in image.size)
        left, top = (width - look.size) // 2, (height - look.size) // 2
        image = image.resize((width, height), kind).crop((left, top, left + look.size, top + look.size))
    levels = torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255
    return (levels - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


@pytest.mark.parametrize("shorter", [20, None])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_files_become_the_features_of_the_crop_that_pillow_makes(
    tmp_path: Path, shorter: int | None, interpolation: str
) -> None:
    look = Preprocessing(16, MEAN, STD, shorter, interpolation)  # type: ignore[arg-type]
    paths = photographs(tmp_path, [(40, 30), (30, 41), (16, 17), (20, 20), (10, 50)] * 10)
    found = list(embedder(look).files(paths))
    vectors = torch.cat([each.vectors for each in found])
    expected = torch.stack([by_hand(path, look).flatten() for path in paths])
    assert [row for each in found for row in each.rows] == list(range(50))
    assert vectors.shape == (50, 1, look.size**2 * 3)
    assert vectors.dtype == torch.float16
    assert (vectors[:, 0] - expected).abs().max() < 1.1 / 255 / min(STD)  # one grey level: other roundings


def test_views_are_the_image_its_mirror_and_crops_that_do_not_change(tmp_path: Path) -> None:
    paths = photographs(tmp_path, [(40, 30), (30, 41)])
    moved = tmp_path / "elsewhere.png"
    moved.write_bytes(Path(paths[0]).read_bytes())
    whole = embedder(views=4)
    whole.batch = 3
    (found,) = whole.files([*paths, str(moved)])
    views = found.vectors.view(3, 4, 3, 16, 16)
    assert torch.equal(views[:, 1], views[:, 0].flip(-1))
    assert torch.equal(views[0], views[2])
    assert found.digests[0] == found.digests[2]
    assert not torch.equal(views[:, 2], views[:, 3])
    assert not found.vectors.is_inference()


def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    paths = photographs(tmp_path, [(40, 30)] * 3)
    Path(paths[1]).write_text("no image")
    (found,) = embedder().files(paths)
    assert found.rows == [0, 2]
    assert len(found.vectors) == len(found.digests) == 2
    assert found.failed == [f"{paths[1]}: not an image that Pillow can read"]
    with pytest.raises(DataError, match=r"1\.png"):
        list(embedder().files(paths, strict=True))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs Linux")
def test_worker_processes_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = photographs(tmp_path, [(40, 30), (30, 41), (16, 17)] * 30)
    Path(paths[50]).write_text("no image")

    def found() -> tuple[Tensor, list[object]]:
        whole = embedder(views=3)
        whole.batch = 4
        batches = list(whole.files(paths))
        assert len(batches) == 23
        return torch.cat([each.vectors for each in batches]), [
            (each.rows, each.digests, each.failed) for each in batches
        ]

    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    vectors, rest = found()
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda pid: {0, 1}
    )  # 5 batches in flight, so places are reused
    assert torch.equal(found()[0], vectors)
    assert found()[1] == rest


def test_loaded_images_are_resized_as_a_whole() -> None:
    pixels = torch.randint(64, 192, (40, 3, 8, 8), dtype=torch.uint8)  # so that no filter overshoots
    images = ResidentImages(pixels, [str(row) for row in range(40)])
    vectors = torch.cat(list(embedder(views=3).images(images))).view(40, 3, 3, 16, 16)
    picture = Image.fromarray(pixels[7].permute(1, 2, 0).numpy()).resize((16, 16), Image.Resampling.BICUBIC)
    levels = vectors[7, 0] * torch.tensor(STD)[:, None, None] + torch.tensor(MEAN)[:, None, None]
    expected = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    assert (levels * 255 - expected).abs().max() < 1.3
    assert torch.equal(vectors[:, 1], vectors[:, 0].flip(-1))
    again = torch.cat(list(embedder(views=3).images(images))).view(40, 3, 3, 16, 16)
    assert torch.equal(again, vectors)


def test_a_batch_without_a_readable_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_text("no image")
    (found,) = embedder(views=2).files([str(tmp_path / "broken.png")])
    assert found.vectors.shape == (0, 2, 3 * 16**2)
