"""The blur is the Gaussian, in float64 and cut off far out, to half a level of rounding (0.55 in all)."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from newfound.data.augment.geometry import Blur, blur

Pictures = Callable[[int, int, int], Tensor]
FAR = 40


def _gaussian(image: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    weights = np.array([math.exp(-0.5 * (d / sigma) ** 2) for d in range(-FAR, FAR + 1)])
    weights /= weights.sum()
    for axis in (1, 2):
        margin = [(FAR, FAR) if axis == a else (0, 0) for a in range(3)]
        padded = np.pad(image, margin, mode="edge")
        image = np.apply_along_axis(np.convolve, axis, padded, weights, mode="valid")
    return image


@pytest.mark.parametrize("shape", [(24, 24), (5, 17)])
def test_blur_is_the_gaussian(shape: tuple[int, int], pictures: Pictures) -> None:
    sigmas = torch.linspace(0.1, 2.0, 20)
    images = pictures(20, *shape)
    result = blur(images, sigmas, reach=8)
    expected = [_gaussian(i, s) for i, s in zip(images.double().numpy(), sigmas.tolist(), strict=True)]
    assert np.abs(result.numpy() - np.stack(expected)).max() <= 0.55


def test_blur_takes_each_sample_with_its_probability(pictures: Pictures) -> None:
    images = pictures(500, 6, 6)
    u = torch.rand(500, 2, generator=torch.Generator().manual_seed(0))
    chosen = u[:, 0] < 0.2
    result = Blur(0.2, 0.5, 2.0)(images, u)
    assert 60 < chosen.sum() < 140
    assert torch.equal(result[~chosen], images[~chosen])
    assert torch.equal(result[chosen], blur(images[chosen], 0.5 + 1.5 * u[chosen, 1], reach=8))
