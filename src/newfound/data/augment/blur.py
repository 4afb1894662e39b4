"""Gaussian blur as two batched matrix products, one for each axis.

Pillow approximates the Gaussian by repeated boxes; this is the Gaussian itself. Its "radius" is our sigma.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from newfound.data.augment.geometry import along_height, along_width
from newfound.data.augment.op import nearest_level, where


def blur(images: Tensor, sigma: Tensor, reach: int) -> Tensor:
    """Blur each image with its own sigma, repeating the border: (B, 3, H, W), (B,) → (B, 3, H, W).

    The Gaussian is cut off `reach` pixels from its centre.
    """
    rows = along_width(images, _gaussians(sigma, images.shape[3], reach))
    return nearest_level(along_height(rows, _gaussians(sigma, images.shape[2], reach)))


def _gaussians(sigma: Tensor, size: int, reach: int) -> Tensor:
    """The weight of each pixel in each pixel: (B,) → (B, size, size)."""
    pixel = torch.arange(-reach, size + reach, device=sigma.device)
    distance = pixel - torch.arange(size, device=sigma.device)[:, None]
    weights = torch.exp(-0.5 * (distance / sigma[:, None, None]) ** 2) * (distance.abs() <= reach)
    weights = weights / weights.sum(2, keepdim=True)
    # Weights outside the image go to the border pixel.
    inner = weights[..., reach : size + reach].clone()
    inner[..., 0] += weights[..., :reach].sum(2)
    inner[..., -1] += weights[..., size + reach :].sum(2)
    return inner


@dataclass(frozen=True)
class Blur:
    """With probability `p` blur with a sigma uniform in low..high pixels."""

    p: float
    low: float = 0.1
    high: float = 2.0
    noise: ClassVar[int] = 2

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        sigma = self.low + (self.high - self.low) * u[:, 1]
        return where(u[:, 0] < self.p, partial(blur, reach=math.ceil(4 * self.high)), images, sigma)
