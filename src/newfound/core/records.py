"""The records that pass between the layers.

Shapes: V views, K heads, B = N + M samples (N labelled first), D features, C = C_l + C_u classes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Outputs = dict[str, Tensor]
"""What a learner's forward returns; joint logits, where it has them, are `logits` (V, K, B, C)."""

Say = Callable[[str], None]
"""Where a line for the user goes."""
OFTEN = 5.0
"""Seconds between lines of how something goes."""

Losses = dict[str, Tensor]
"""Named terms whose means add up to what is minimised; a (K,) term also ranks the heads."""


@dataclass(frozen=True)
class Task:
    """How many classes are known and how many are to be found."""

    num_known: int
    num_novel: int
    num_unlabelled: int = 0
    """Images in the unlabelled set, for learners that remember something of each."""

    @property
    def num_classes(self) -> int:
        return self.num_known + self.num_novel


@dataclass(frozen=True)
class Views:
    """What the loader prepares of each image: `large` full-size crops and `small` ones."""

    large: int = 1
    small: int = 0

    @property
    def count(self) -> int:
        return self.large + self.small


@dataclass(frozen=True)
class Batch:
    """N labelled rows first, M unlabelled after, both fixed: slices, no masks, static shapes."""

    views: tuple[Tensor, ...]
    """One tensor (V_s, B, 3, h, w) for each crop size, the large ones first."""
    labels: Tensor
    """(N,) classes of the labelled rows; nothing is known of the others."""
    index: Tensor
    """(B,) the row of each sample in its own set, labelled or unlabelled."""

    @property
    def num_labelled(self) -> int:
        return self.labels.shape[0]


@dataclass(frozen=True)
class Clock:
    """When a step happens; `epoch` is a tensor so that a captured step can follow it."""

    epoch: Tensor


def total(losses: Losses) -> Tensor:
    """What is minimised: the sum of the terms, each averaged over its heads."""
    return torch.stack([term.mean() for term in losses.values()]).sum()
