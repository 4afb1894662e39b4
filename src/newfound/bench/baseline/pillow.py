"""The v2 augmentation of CIFAR-sized images (card 0.7), one image at a time with Pillow."""

import math
import random
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from newfound.data.images import Channels, Look

Picture = Image.Image


@dataclass(frozen=True)
class Augmentation:
    """How one kind of crop is made."""

    size: int
    area: tuple[float, float]
    """Least and largest share of the image that a resized crop shows."""
    pad: int | None
    """Pixels around the image in which a crop of full size may lie, in one half of the cases."""
    jitter: float
    """Probability of a change of colours."""
    tone: float
    """Probability of solarising, and again of equalising."""

    def __call__(self, picture: Picture) -> Picture:
        if self.pad is not None and random.random() < 0.5:
            picture = padded_crop(picture, self.size, self.pad)
        else:
            picture = resized_crop(picture, self.size, self.area)
        if random.random() < 0.5:
            picture = ImageOps.mirror(picture)
        if random.random() < self.jitter:
            picture = colour_jitter(picture)
        if random.random() < self.tone:
            picture = ImageOps.solarize(picture, threshold=random.uniform(0, 256))  # type: ignore[arg-type]
        if random.random() < self.tone:
            picture = ImageOps.equalize(picture)
        return picture


class FourCrops:
    """A picture → two large and two small crops, each (3, h, w), normalised."""

    def __init__(self, look: Look) -> None:
        large = Augmentation(look.size, (0.5, 1.0), round(look.size / 8), jitter=0.6, tone=0.1)
        small = Augmentation(round(look.size * 18 / 32), (0.3, 0.8), None, jitter=0.8, tone=0.2)
        self.crops = (large, large, small, small)
        self.mean, self.std = look.mean, look.std

    def __call__(self, picture: Picture) -> list[Tensor]:
        return [to_tensor(augment(picture), self.mean, self.std) for augment in self.crops]


def padded_crop(picture: Picture, size: int, pad: int) -> Picture:
    """A square anywhere in the picture with black around it."""
    wide = ImageOps.expand(picture, pad)
    left, top = random.randint(0, wide.width - size), random.randint(0, wide.height - size)
    return wide.crop((left, top, left + size, top + size))


def resized_crop(picture: Picture, size: int, area: tuple[float, float]) -> Picture:
    """A box with a share of the area and a ratio of 3/4 to 4/3, resized; the whole picture if none fits."""
    width, height = picture.size
    for _ in range(10):
        wanted = width * height * random.uniform(*area)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(wanted * ratio)), round(math.sqrt(wanted / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = random.randint(0, width - w), random.randint(0, height - h)
            picture = picture.crop((left, top, left + w, top + h))
            break
    return picture.resize((size, size), Image.Resampling.BILINEAR)


def colour_jitter(picture: Picture) -> Picture:
    """Brightness and contrast by up to 0.4, saturation by 0.2, hue by 0.1 of the circle, in random order."""
    for name in random.sample(("brightness", "contrast", "saturation", "hue"), 4):
        if name == "brightness":
            picture = ImageEnhance.Brightness(picture).enhance(random.uniform(0.6, 1.4))
        elif name == "contrast":
            picture = ImageEnhance.Contrast(picture).enhance(random.uniform(0.6, 1.4))
        elif name == "saturation":
            picture = ImageEnhance.Color(picture).enhance(random.uniform(0.8, 1.2))
        else:
            picture = shifted_hue(picture, random.uniform(-0.1, 0.1))
    return picture


def shifted_hue(picture: Picture, shift: float) -> Picture:
    hue, saturation, value = picture.convert("HSV").split()
    turned = (np.asarray(hue, dtype=np.int16) + int(shift * 255)) % 256
    hue = Image.fromarray(turned.astype(np.uint8))
    return Image.merge("HSV", (hue, saturation, value)).convert("RGB")


def to_tensor(picture: Picture, mean: Channels, std: Channels) -> Tensor:
    """A picture → (3, h, w), normalised."""
    levels = torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255
    return (levels - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
