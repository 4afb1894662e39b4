"""Colour jitter, grey, solarise and equalise, with Pillow's rounding."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from newfound.data.augment.op import nearest_level, per_image, where

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


def luma(images: Tensor) -> Tensor:
    """Pillow's grey of a colour, in whole levels: (B, 3, H, W) → (B, 1, H, W)."""
    red, green, blue = images.chunk(3, 1)
    # Every sum is below 2^24, so float32 holds it exactly.
    return ((19595 * red + 38470 * green + 7471 * blue + 32768) / 65536).floor()


def blend(images: Tensor, towards: Tensor, factor: Tensor) -> Tensor:
    """towards + factor (images - towards) in whole levels, rounded down as in Pillow.

    Images and towards (B, 3 or 1, H or 1, W or 1), factor (B,) → (B, 3, H, W).
    """
    return (towards + per_image(factor) * (images - towards)).clamp(0, 255).floor()


def shift_hue(images: Tensor, shift: Tensor) -> Tensor:
    """Rotate the hue by `shift` of a full circle in Pillow's 8-bit HSV: (B, 3, H, W), (B,) → (B, 3, H, W).

    Every cast and rounding is Pillow's, since a hue that is one step off changes a colour by 6 levels.
    """
    value = images.amax(1, keepdim=True)
    chroma = value - images.amin(1, keepdim=True)
    red, green, _ = images.chunk(3, 1)
    from_red, from_green, from_blue = ((value - images) / chroma.clamp(min=1)).double().chunk(3, 1)
    sixths = torch.where(
        red == value,
        from_blue - from_green,
        torch.where(green == value, 2 + from_red - from_blue, 4 + from_green - from_red),
    )
    circle = ((sixths.float().double() / 6 + 1) % 1).float()
    hue = ((circle * 255).floor() + per_image((shift * 255).trunc())) % 256
    # The exact quotient is never this close below a whole number; a rounded one may be.
    saturation = (255 * chroma / value.clamp(min=1) + 1e-3).floor() / 255
    # How far red, green and blue fall below the value at full saturation, around the circle in sixths.
    around = hue * (6 / 255)
    fall = torch.cat([2 - (around - 3).abs(), (around - 2).abs() - 1, (around - 4).abs() - 1], 1).clamp(0, 1)
    return nearest_level(value * (1 - saturation * fall))


def jitter(images: Tensor, order: Tensor, factors: Tensor) -> Tensor:
    """Adjust each image in its own order: (B, 3, H, W), (B, n), (B, 3 or 4) → (B, 3, H, W).

    `order` holds columns of `factors`: brightness, contrast, saturation and, if there are four, hue.
    """
    for turn in order.unbind(1):
        factor = factors.gather(1, turn[:, None])[:, 0]
        grey = luma(images)
        mean = nearest_level(grey.mean((2, 3), keepdim=True))
        # Brightness blends towards black, contrast towards the mean, saturation towards grey.
        towards = per_image(turn == CONTRAST) * mean + per_image(turn == SATURATION) * grey
        blended = blend(images, towards, factor)
        if factors.shape[1] > HUE:
            blended = where(turn == HUE, lambda _, *given: shift_hue(*given), blended, images, factor)
        images = blended
    return images


def solarise(images: Tensor, threshold: Tensor) -> Tensor:
    """Invert levels at or above a threshold: (B, 3, H, W), (B,) → (B, 3, H, W)."""
    return torch.where(images < per_image(threshold), images, 255 - images)


def equalise(images: Tensor) -> Tensor:
    """Equalise the histogram of each channel as Pillow does: (B, 3, H, W) → (B, 3, H, W)."""
    levels = images.flatten(2).flatten(0, 1).long()
    counts = torch.zeros(levels.shape[0], 256, dtype=torch.long, device=images.device)
    counts = counts.scatter_add(1, levels, torch.ones_like(levels))
    highest = counts.gather(1, levels.amax(1, keepdim=True))
    step = (levels.shape[1] - highest) // 255
    below = counts.cumsum(1) - counts
    table = ((step // 2 + below) // step.clamp(min=1)).clamp(max=255)
    return table.gather(1, levels).where(step > 0, levels).to(images.dtype).view_as(images)


@dataclass(frozen=True)
class Jitter:
    """With probability `p` change brightness, contrast, saturation and hue, in random order.

    Factors are uniform in 1 ± strength, at least 0; the hue rotates by up to ± `hue` of the circle.
    """

    brightness: float
    contrast: float
    saturation: float
    hue: float
    p: float
    noise: ClassVar[int] = 9

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        chance, order, draws = u.split_with_sizes([1, 4, 4], 1)
        ranges = [(max(0.0, 1 - v), 1 + v) for v in (self.brightness, self.contrast, self.saturation)]
        if self.hue:
            ranges.append((-self.hue, self.hue))
        factors = torch.stack([low + (high - low) * draws[:, i] for i, (low, high) in enumerate(ranges)], 1)
        return where(chance[:, 0] < self.p, jitter, images, order[:, : len(ranges)].argsort(1), factors)


@dataclass(frozen=True)
class Grey:
    """Convert to grey with probability `p`."""

    p: float
    noise: ClassVar[int] = 1

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        return torch.where(per_image(u[:, 0] < self.p), luma(images), images)


@dataclass(frozen=True)
class Solarise:
    """With probability `p` invert levels at or above a threshold uniform in 0..256."""

    p: float
    noise: ClassVar[int] = 2

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        return where(u[:, 0] < self.p, solarise, images, 256 * u[:, 1])


@dataclass(frozen=True)
class Equalise:
    """Equalise the histograms with probability `p`.

    Deviation: histograms are expensive, so they are computed only for a fixed number of candidates, those
    with the smallest draws. Their number is four standard deviations above the mean, so about one batch in
    30,000 equalises too few images.
    """

    p: float
    noise: ClassVar[int] = 1

    def candidates(self, batch: int) -> int:
        mean = self.p * batch
        return min(batch, math.ceil(mean + 4 * math.sqrt(mean) + 1))

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        draws, rows = u[:, 0].topk(self.candidates(len(u)), largest=False, sorted=False)
        chosen = images[rows]
        return images.index_copy(0, rows, torch.where(per_image(draws < self.p), equalise(chosen), chosen))
