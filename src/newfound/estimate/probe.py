"""Known classes hidden from a network, to see later how it does on classes it has never seen."""

from hashlib import blake2b

import torch
from torch import Tensor

from newfound.core.records import Task
from newfound.data.images import ImageSet, Split

UNKNOWN = 1
"""Stands for the number of novel classes, which a split must have and nobody knows."""


class SomeImages(ImageSet):
    """Some rows of a set."""

    def __init__(self, images: ImageSet, rows: Tensor) -> None:
        self.images, self.rows = images, rows
        self.size, self.names = images.size, [images.names[row] for row in rows.tolist()]
        self.device = images.device

    def fetch(self, index: Tensor) -> Tensor:
        return self.images.fetch(self.rows[index.to(self.rows.device)])

    def placed(self, device: torch.device, move: bool) -> "SomeImages":
        images = self.images.to(device, move)
        return SomeImages(images, self.rows.to(device) if images.resident else self.rows.cpu())

    @property
    def resident(self) -> bool:
        return self.images.resident

    def digest(self) -> str:
        rows = self.rows.cpu().numpy().tobytes()
        return blake2b(self.images.fingerprint().encode() + rows, digest_size=16).hexdigest()


def hide_classes(split: Split, number: int) -> tuple[Split, ImageSet, Tensor]:
    """Hide the last known classes: what training may see, the hidden images, and their classes from 0 on."""
    first = split.task.num_known - number
    shown, hidden = (torch.nonzero(mask).flatten() for mask in (split.labels < first, split.labels >= first))
    images = SomeImages(split.labelled, shown)
    seen = Split(images, split.labels[shown], split.unlabelled, Task(first, UNKNOWN), split.look)
    return seen, SomeImages(split.labelled, hidden), split.labels[hidden] - first
