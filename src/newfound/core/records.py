"""The records that pass between layers.

Shapes: V views, K heads, B = N + M samples (N labelled first), D features, C = C_l + C_u classes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from newfound.core import dist
from newfound.core.settings import Count
from newfound.core.source import PileKind

Outputs = dict[str, Tensor]
"""What a learner's forward returns; joint logits, if it has any, are `logits` (V, K, B, C)."""

Losses = dict[str, Tensor]
"""Named terms; the sum of their means is minimised. A term of shape (K,) also ranks the heads."""


@dataclass(frozen=True)
class Task:
    """The number of known and of novel classes, and what the unlabelled images may be."""

    num_known: Count
    num_novel: Count
    """0 if no novel classes are looked for, which suffices for pretraining."""
    num_unlabelled: Count = 0
    """Size of the unlabelled set, for learners that store something per image."""
    pile: PileKind = "novel"
    """Whether unlabelled images may be of known classes, which only methods that are `mixed` support."""
    num_labelled: Count = 0
    """Size of the labelled set."""

    @property
    def num_classes(self) -> int:
        return self.num_known + self.num_novel


@dataclass(frozen=True)
class Views:
    """The crops that the loader makes of each image: `large` full-size ones and `small` ones."""

    large: int = 1
    small: int = 0

    @property
    def count(self) -> int:
        return self.large + self.small


@dataclass(frozen=True)
class Batch:
    """N labelled rows, then M unlabelled ones; both numbers are fixed, so slices replace masks."""

    views: tuple[Tensor, ...]
    """One tensor (V_s, b, 3, h, w) per crop size, large crops first.

    With several processes, each has its own rows of both kinds here, but every label and index.
    """
    labels: Tensor
    """(N,) classes of the labelled rows."""
    index: Tensor
    """(B,) position of each sample in its own set, labelled or unlabelled."""

    @property
    def num_labelled(self) -> int:
        return self.labels.shape[0]

    @property
    def unlabelled_views(self) -> tuple[Tensor, ...]:
        """The views of the unlabelled rows."""
        first = dist.count(self.num_labelled)
        return tuple(crops[:, first:] for crops in self.views)


@dataclass(frozen=True)
class Clock:
    """The time of a step; `epoch` is a tensor so that a captured step can read it."""

    epoch: Tensor


def total(losses: Losses) -> Tensor:
    """The objective: the sum of the terms, each averaged over its heads."""
    return torch.stack([term.mean() for term in losses.values()]).sum()
