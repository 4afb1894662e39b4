"""The Pillow pipeline makes crops of the right shapes and the same distribution as ours."""

import random

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from benchmarks.baseline.loading import (
    FourCrops,
    crop_loader,
    num_workers,
    padded_crop,
    resized_crop,
    shifted_hue,
    to_tensor,
)
from benchmarks.setup import benchmark_shape, noise_split
from newfound.data.augment import Augmenter

IMAGES, DRAWS = 8, 60
TASK, LOOK = benchmark_shape("cifar10")


@pytest.fixture
def pictures() -> Tensor:
    """(IMAGES, 3, 32, 32) uint8: smooth waves of colour with a little noise."""
    generator = torch.Generator().manual_seed(0)
    y, x = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    wave = torch.rand(IMAGES, 3, 3, 1, 1, generator=generator)
    smooth = 120 + 90 * torch.sin(wave[:, :, 0] * x / 4 + wave[:, :, 1] * y / 4 + 6 * wave[:, :, 2])
    return (smooth + 20 * torch.rand(smooth.shape, generator=generator)).to(torch.uint8)


def _statistics(crops: Tensor) -> Tensor:
    """Mean and standard deviation of each colour, and how much neighbouring pixels differ: (7,)."""
    contrast = crops.diff(dim=-1).abs().mean().reshape(1)
    return torch.cat([crops.mean((0, 2, 3)), crops.std((0, 2, 3)), contrast])


def test_the_same_distribution_as_ours(pictures: Tensor) -> None:
    """480 crops of each kind: means and deviations within 0.1 of the normalised scale."""
    random.seed(0)
    crops = FourCrops(LOOK)
    arrays = pictures.permute(0, 2, 3, 1).numpy()
    drawn = [crops(Image.fromarray(array)) for array in arrays for _ in range(DRAWS)]
    augmenter = Augmenter("v2", LOOK.kind, LOOK.size, 1, 1, LOOK.mean, LOOK.std)
    noise = torch.rand(2, IMAGES * DRAWS, augmenter.noise, generator=torch.Generator().manual_seed(1))
    ours = augmenter(pictures.repeat_interleave(DRAWS, 0), noise)
    for view, wanted in ((0, ours[0][0]), (2, ours[1][0])):
        theirs = torch.stack([each[view] for each in drawn])
        assert theirs.shape == wanted.shape
        torch.testing.assert_close(_statistics(theirs), _statistics(wanted), atol=0.1, rtol=0)


def test_a_padded_crop_is_a_window_on_black() -> None:
    random.seed(0)
    white = Image.new("RGB", (32, 32), (255, 255, 255))
    for _ in range(20):
        window = np.asarray(padded_crop(white, 32, 4))[..., 0] == 255
        rows, columns = window.any(1).sum(), window.any(0).sum()
        assert window.sum() == rows * columns
        assert min(rows, columns) >= 28


def test_a_resized_crop_of_everything_is_the_picture(pictures: Tensor) -> None:
    """No box fits, so every draw falls back to the whole picture."""
    picture = Image.fromarray(pictures[0].permute(1, 2, 0).numpy())
    assert np.array_equal(np.asarray(resized_crop(picture, 32, (1.2, 1.3))), np.asarray(picture))
    assert resized_crop(picture, 18, (0.3, 0.8)).size == (18, 18)


def test_a_third_of_the_circle_turns_red_to_green() -> None:
    red = Image.new("RGB", (2, 2), (255, 0, 0))
    assert shifted_hue(red, 1 / 3).getpixel((0, 0)) == (0, 255, 0)
    assert np.array_equal(np.asarray(shifted_hue(red, 0.0)), np.asarray(red))


def test_a_tensor_is_normalised() -> None:
    grey = Image.new("RGB", (3, 2), (51, 102, 255))
    tensor = to_tensor(grey, (0.2, 0.2, 0.2), (0.5, 0.25, 0.1))
    assert tensor.shape == (3, 2, 3)
    torch.testing.assert_close(tensor[:, 0, 0], torch.tensor([0.0, 0.8, 8.0]))


def test_a_loader_mixes_both_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.baseline.loading.MOST_WORKERS", 1)
    split = noise_split(TASK, LOOK, 20, 20, torch.device("cpu"))
    batches = list(crop_loader(split, 8, 5))
    assert num_workers() == 1
    assert len(batches) == 5
    for crops, labels in batches:
        assert [tuple(crop.shape) for crop in crops] == [(8, 3, 32, 32)] * 2 + [(8, 3, 18, 18)] * 2
        assert len(labels) == 8
    every = torch.cat([labels for _, labels in batches])
    assert (every == -1).sum() == 20
    assert every.max() == TASK.num_known - 1
