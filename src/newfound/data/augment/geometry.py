"""Crops, flips, translations, quarter turns and Gaussian blur.

A crop, its padding and its antialiased resize are two batched matrix products, one for each axis, with
Pillow's triangle weights. Pillow crops before it resizes, so the weights are zero outside the box; source
pixels outside the image do not occur in the product, which is equivalent to black padding.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from newfound.core.errors import DataError
from newfound.data.augment.op import nearest_level, per_image, where

Along = Callable[[Tensor, Tensor], Tensor]
RATIO = (3 / 4, 4 / 3)
"""Width over height of a resized crop."""
TRIES = 10
"""Boxes drawn for a resized crop before the fallback."""


def along_width(images: Tensor, weights: Tensor) -> Tensor:
    """Each row times the weights of its image: (B, 3, H, W), (B, w, W) → (B, 3, H, w)."""
    batch, channels, height, _ = images.shape
    return (images.flatten(1, 2) @ weights.mT).view(batch, channels, height, weights.shape[1])


def along_height(images: Tensor, weights: Tensor) -> Tensor:
    """Each column times the weights of its image: (B, 3, H, W), (B, h, H) → (B, 3, h, W)."""
    return weights[:, None] @ images


def resample(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Cut a box out of each image and resize it as Pillow does: (B, 3, H, W), (B, 4) → (B, 3, size, size).

    A box is left, top, width, height in whole pixels. One that reaches outside the image, which is filled
    with black, must have the width and height `size`.
    """
    left, top, width, height = boxes.unbind(1)
    rows = _fixed_point(along_width, 3, images, _triangles(left, width, size, images.shape[3]))
    return _fixed_point(along_height, 2, rows, _triangles(top, height, size, images.shape[2]))


def _fixed_point(along: Along, dim: int, images: Tensor, weights: Tensor) -> Tensor:
    """The product with Pillow's 22-bit weights in whole levels, halves rounded up.

    The weights are split into two halves of 11 bits, whose sums float32 (and TF32) represents exactly: many
    sums lie halfway between two levels, and must be rounded as in Pillow on every device.
    """
    units = (weights * 2**22).round()
    high = (units / 2**11).floor()
    low = units - high * 2**11
    # Both halves in one product, stacked.
    size = weights.shape[1]
    sums = along(images, torch.cat([high, low], 1).float())
    high_sum, low_sum = sums.narrow(dim, 0, size), sums.narrow(dim, size, size)
    return ((high_sum + ((low_sum + 2**21) / 2**11).floor()) / 2**11).floor()


def _triangles(start: Tensor, length: Tensor, size: int, source: int) -> Tensor:
    """The weight of each source pixel in `size` pixels of the box: (B,), (B,) → float64 (B, size, source)."""
    start, length = start.double()[:, None, None], length.double()[:, None, None]
    scale = length / size
    centre = (torch.arange(size, device=start.device)[:, None] + 0.5) * scale
    pixel = torch.arange(source, device=start.device) + 0.5 - start
    weights = (1 - (pixel - centre).abs() / scale.clamp(min=1)).clamp(min=0)
    weights = weights * ((pixel > 0) & (pixel < length))
    return weights / weights.sum(2, keepdim=True).clamp(min=1e-6)


def translate(images: Tensor, right: Tensor, down: Tensor, margin: int) -> Tensor:
    """Shift images by whole pixels, at most `margin`, and reflect: (B, 3, S, S), (B,), (B,) → same."""
    size = images.shape[3]
    boxes = torch.stack(
        [margin - right, margin - down, torch.full_like(right, size), torch.full_like(down, size)], 1
    )
    return resample(F.pad(images, [margin] * 4, mode="reflect"), boxes, size)


def rotate4(images: Tensor) -> Tensor:
    """Each image rotated by 0, 90, 180 and 270 degrees anticlockwise: (..., S, S) → (4, ..., S, S)."""
    return torch.stack([images.rot90(turns, (-2, -1)) for turns in range(4)])


def whole(u: Tensor, count: int | Tensor) -> Tensor:
    """Uniform numbers in [0, 1) → uniform whole numbers in 0..count - 1."""
    return (u * count).floor()


class Boxes(Protocol):
    """A way to draw the boxes of a crop."""

    @property
    def noise(self) -> int: ...

    def draw(self, u: Tensor, height: int, width: int, size: int) -> Tensor:
        """u (B, noise) → boxes (B, 4) in images of height × width for crops of side `size`."""


@dataclass(frozen=True)
class Padded:
    """A box of the crop's size, anywhere in the image padded by `pad` black pixels."""

    pad: int
    noise: ClassVar[int] = 2

    def draw(self, u: Tensor, height: int, width: int, size: int) -> Tensor:
        across, down, least = width + 2 * self.pad - size, height + 2 * self.pad - size, size - 2 * self.pad
        if min(across, down) < 0:
            raise DataError(
                f"Crops of {size} pixels need images of at least {least} x {least}, "
                f"got {width} x {height}. Choose a smaller image size."
            )
        side = torch.full_like(u[:, 0], size)
        left, top = whole(u[:, 0], across + 1) - self.pad, whole(u[:, 1], down + 1) - self.pad
        return torch.stack([left, top, side, side], 1)


@dataclass(frozen=True)
class Resized:
    """A box with an area share uniform in low..high and a log-uniform aspect ratio of 3/4 to 4/3.

    The first of TRIES such boxes that fits or, if none does, the largest centred one of an allowed ratio.
    """

    low: float
    high: float
    noise: ClassVar[int] = 2 * TRIES + 2

    def draw(self, u: Tensor, height: int, width: int, size: int) -> Tensor:
        areas, ratios, place = u.split_with_sizes([TRIES, TRIES, 2], 1)
        areas = height * width * (self.low + (self.high - self.low) * areas)
        shortest, longest = math.log(RATIO[0]), math.log(RATIO[1])
        ratios = (shortest + (longest - shortest) * ratios).exp()
        widths, heights = (areas * ratios).sqrt().round(), (areas / ratios).sqrt().round()
        fits = (widths > 0) & (widths <= width) & (heights > 0) & (heights <= height)
        first = fits.int().argmax(1, keepdim=True)
        found = fits.any(1)
        last_w, last_h = _largest(height, width)
        w = widths.gather(1, first)[:, 0].where(found, last_w)
        h = heights.gather(1, first)[:, 0].where(found, last_h)
        left = whole(place[:, 0], width - w + 1).where(found, (width - last_w) // 2)
        top = whole(place[:, 1], height - h + 1).where(found, (height - last_h) // 2)
        return torch.stack([left, top, w, h], 1)


def _largest(height: int, width: int) -> tuple[int, int]:
    """Width and height of the largest box of an allowed ratio."""
    return min(width, round(height * RATIO[1])), min(height, round(width / RATIO[0]))


@dataclass(frozen=True)
class Centred:
    """A centred box of the crop's size, or of the image's shorter side if that is smaller."""

    noise: ClassVar[int] = 0

    def draw(self, u: Tensor, height: int, width: int, size: int) -> Tensor:
        side = min(size, height, width)
        box = (round((width - side) / 2), round((height - side) / 2), side, side)
        return torch.stack([u.new_full((len(u),), each) for each in box], 1)


@dataclass(frozen=True)
class OneOf:
    """One of two ways to draw the box, each with probability one half."""

    first: Boxes
    second: Boxes

    @property
    def noise(self) -> int:
        return 1 + self.first.noise + self.second.noise

    def draw(self, u: Tensor, height: int, width: int, size: int) -> Tensor:
        choice, first, second = u.split_with_sizes([1, self.first.noise, self.second.noise], 1)
        return torch.where(
            choice < 0.5,
            self.first.draw(first, height, width, size),
            self.second.draw(second, height, width, size),
        )


@dataclass(frozen=True)
class Crop:
    """A square of side `size` from a random box of each image."""

    size: int
    boxes: Boxes

    @property
    def noise(self) -> int:
        return self.boxes.noise

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        height, width = images.shape[2:]
        return resample(images, self.boxes.draw(u, height, width, self.size), self.size)


@dataclass(frozen=True)
class Flip:
    """Mirror left and right with probability `p`."""

    p: float = 0.5
    noise: ClassVar[int] = 1

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        return torch.where(per_image(u[:, 0] < self.p), images.flip(3), images)


@dataclass(frozen=True)
class Translate:
    """Shift by up to `pixels` along each axis, reflecting the border."""

    pixels: int
    noise: ClassVar[int] = 2

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        right, down = (whole(u, 2 * self.pixels + 1) - self.pixels).unbind(1)
        return translate(images, right, down, self.pixels)


def blur(images: Tensor, sigma: Tensor, reach: int) -> Tensor:
    """Blur each image with its own sigma, repeating the border: (B, 3, H, W), (B,) → (B, 3, H, W).

    The Gaussian is cut off `reach` pixels from its centre. Pillow, whose "radius" is our sigma, approximates
    it by repeated boxes.
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
