"""Pictures, four crops each, through the workers of a `DataLoader`."""

import os
import sys
from collections.abc import Callable, Iterator
from itertools import islice

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from newfound.bench.baseline.pillow import FourCrops
from newfound.bench.clock import elapsed
from newfound.data.images import Split

MOST_WORKERS = 16
PREFETCHED = 2
"""Batches that each worker makes ahead, the default of `DataLoader`."""
Item = tuple[list[Tensor], int]
CropBatch = tuple[list[Tensor], Tensor]
"""V tensors (B, 3, h, w) and (B,) labels, -1 where there is none."""
Use = Callable[[list[Tensor], Tensor], None]


class CropDataset(Dataset[Item]):
    """The labelled and the unlabelled pictures of a split, mixed, `length` in all."""

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
    """One for each core that this process may use, up to sixteen."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    return min(cores or 1, MOST_WORKERS)


def crop_loader(split: Split, batch_size: int, batches: int, *, pinned: bool = False) -> "DataLoader[Item]":
    """So many shuffled batches, as published codes load them."""
    return DataLoader(
        CropDataset(split, batch_size * batches),
        batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=num_workers(),
        pin_memory=pinned,
    )


def loading_ms(split: Split, batch_size: int, rounds: int) -> float:
    """Milliseconds that a batch takes when it is only loaded."""
    return steady_ms(split, batch_size, rounds, lambda crops, labels: None, torch.device("cpu"))


def steady_ms(split: Split, batch_size: int, rounds: int, use: Use, device: torch.device) -> float:
    """Milliseconds from batch to batch when each is loaded and used.

    The clock starts when every worker has delivered once and runs for `rounds` batches of each: they deliver
    at nearly the same time, so anything but whole rounds would be a matter of luck. The loader has more to do
    to the end and beyond.
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
