"""Known classes hidden from a network, to see later how it does on classes it has never seen."""

import torch
from torch import Tensor

from newfound.core.records import Task
from newfound.data.images import ImageSet, Split

UNKNOWN = 1
"""Stands for the number of novel classes, which a split must have and nobody knows."""


def hide_classes(split: Split, number: int) -> tuple[Split, ImageSet, Tensor]:
    """Hide the last known classes: what training may see, the hidden images, and their classes from 0 on."""
    first = split.task.num_known - number
    shown, hidden = (torch.nonzero(mask).flatten() for mask in (split.labels < first, split.labels >= first))
    images = split.labelled.some(shown)
    seen = Split(images, split.labels[shown], split.unlabelled, Task(first, UNKNOWN), split.look)
    return seen, split.labelled.some(hidden), split.labels[hidden] - first
