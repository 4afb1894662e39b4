"""Four crops of each picture (augmentation v2), one at a time with Pillow, in workers of a `DataLoader`."""

import math
import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from benchmarks.measure import elapsed
from newfound.core.encoder import Channels
from newfound.data.dataset import Look, Split

Picture = Image.Image
MOST_WORKERS = 16
PREFETCHED = 2
"""Batches that each worker prefetches: the default of `DataLoader`."""
Item = tuple[list[Tensor], int]
CropBatch = tuple[list[Tensor], Tensor]
"""V tensors (B, 3, h, w), and labels (B,) with -1 for unlabelled images."""
Use = Callable[[list[Tensor], Tensor], None]


@dataclass(frozen=True)
class Augmentation:
    """One kind of crop, with its colour changes."""

    size: int
    area: tuple[float, float]
    """The smallest and largest share of the image that a resized crop covers."""
    pad: int | None
    """Padding for a crop of full size, used half of the time; None for resized crops only."""
    jitter: float
    """The probability of a colour jitter."""
    tone: float
    """The probability of solarising, and, independently, of equalising."""

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
    """A random square of the picture padded with black."""
    wide = ImageOps.expand(picture, pad)
    left, top = random.randint(0, wide.width - size), random.randint(0, wide.height - size)
    return wide.crop((left, top, left + size, top + size))


def resized_crop(picture: Picture, size: int, area: tuple[float, float]) -> Picture:
    """A random box with an aspect ratio of 3/4 to 4/3, resized; the whole picture if none fits."""
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


class CropDataset(Dataset[Item]):
    """Crops of the labelled and unlabelled pictures of a split, repeated up to `length`."""

    def __init__(self, split: Split, length: int) -> None:
        sets = [images.take(torch.arange(len(images))) for images in (split.labelled, split.unlabelled)]
        self.pictures = torch.cat(sets).permute(0, 2, 3, 1).contiguous().cpu().numpy()
        self.labels = split.labels.tolist() + [-1] * len(split.unlabelled)
        self.crops, self.length = FourCrops(split.look), length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Item:
        row = index % len(self.labels)
        return self.crops(Image.fromarray(self.pictures[row])), self.labels[row]


def num_workers() -> int:
    """One worker per core that this process may use, at most sixteen."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    return min(cores or 1, MOST_WORKERS)


def crop_loader(split: Split, batch_size: int, batches: int, *, pinned: bool = False) -> "DataLoader[Item]":
    """A loader of `batches` shuffled batches, as in published code."""
    return DataLoader(
        CropDataset(split, batch_size * batches),
        batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=num_workers(),
        pin_memory=pinned,
    )


def loading_ms(split: Split, batch_size: int, rounds: int) -> float:
    """Milliseconds per batch if batches are only loaded."""
    return steady_ms(split, batch_size, rounds, lambda crops, labels: None, torch.device("cpu"))


def steady_ms(split: Split, batch_size: int, rounds: int, use: Use, device: torch.device) -> float:
    """Milliseconds per batch if each is loaded and used.

    The clock starts when every worker has delivered one batch, and runs for `rounds` batches per worker.
    Workers deliver at nearly the same time, so only whole rounds give a stable number. When the clock stops,
    the loader still has batches to make.
    """
    workers = num_workers()
    spare = 1 + PREFETCHED
    loader = crop_loader(split, batch_size, workers * (rounds + spare), pinned=device.type == "cuda")
    batches: Iterator[CropBatch] = iter(loader)

    def consume(number: int) -> None:
        for crops, labels in islice(batches, number):
            use(crops, labels)

    consume(workers)
    return 1000 * elapsed(lambda: consume(workers * rounds), device) / (workers * rounds)
