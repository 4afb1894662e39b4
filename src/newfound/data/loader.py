"""Batches of a fixed N labelled + M unlabelled images, augmented on the device.

Deviation: UNO and IIC draw CIFAR batches from the shuffled union of both sets, so N varies from step to
step; a fixed N keeps every shape static.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from newfound.core.config import TrainConfig
from newfound.core.records import Batch, Views
from newfound.core.seed import generator
from newfound.data.augment import Augmenter
from newfound.data.images import Split
from newfound.data.sampler import ClassSampler


@dataclass(frozen=True)
class Draw:
    """All that is random about one batch: which rows, and the uniforms that augment them."""

    labelled: Tensor
    """(N,) rows of the labelled set."""
    unlabelled: Tensor
    """(M,) rows of the unlabelled set."""
    noise: Tensor
    """(V, B, noise) uniforms."""


class Loader:
    """Draws an epoch's batches; the same seed, stage and epoch always draw the same ones."""

    def __init__(
        self,
        split: Split,
        views: Views,
        train: TrainConfig,
        *,
        uses: Literal["labelled", "unlabelled", "both"],
        seed: int,
        stage: str,
        device: torch.device,
    ) -> None:
        self.split, self.views, self.device = split, views, device
        self.seed, self.stage = seed, stage
        look = split.look
        self.augment = Augmenter(
            train.augmentation, look.kind, look.size, views.large, views.small, look.mean, look.std
        )
        self.num_labelled, self.num_unlabelled, self.steps = batch_shape(
            self.split, uses, train.batch_size, train.labelled_share
        )
        self.sampler = (
            ClassSampler(split.labels, train.classes_per_batch, self.num_labelled)
            if train.classes_per_batch and self.num_labelled
            else None
        )

    @property
    def batch_size(self) -> int:
        return self.num_labelled + self.num_unlabelled

    def draws(self, epoch: int) -> Iterator[Draw]:
        """One epoch, each set freshly shuffled."""
        random = generator(self.device, self.seed, self.stage, epoch)
        if self.sampler:
            labelled = self.sampler(self.steps, random)
        else:
            labelled = self._rows(len(self.split.labelled), self.num_labelled, random)
        unlabelled = self._rows(len(self.split.unlabelled), self.num_unlabelled, random)
        shape = (self.views.count, self.batch_size, self.augment.noise)
        for step in range(self.steps):
            noise = torch.rand(shape, generator=random, device=self.device)
            yield Draw(labelled[step], unlabelled[step], noise)

    def batch(self, draw: Draw) -> Batch:
        """The batch a draw stands for: a pure function on the device when the images are resident."""
        parts = []
        if self.num_labelled:
            parts.append(self.split.labelled.take(draw.labelled))
        if self.num_unlabelled:
            parts.append(self.split.unlabelled.take(draw.unlabelled))
        views = self.augment(torch.cat(parts), draw.noise)
        index = torch.cat([draw.labelled, draw.unlabelled])
        return Batch(views, self.split.labels[draw.labelled], index)

    def _rows(self, available: int, wanted: int, random: torch.Generator) -> Tensor:
        """(steps, wanted) rows: shuffled passes over the set, one after the other."""
        if not wanted:  # and no random number either: a stage must not depend on a set that it does not use
            return torch.empty(self.steps, 0, dtype=torch.int64, device=self.device)
        needed = self.steps * wanted
        passes = -(-needed // available)
        shuffled = [torch.randperm(available, generator=random, device=self.device) for _ in range(passes)]
        return torch.cat(shuffled)[:needed].view(self.steps, wanted)


SHARES = {"half": 0.5, "three-quarters": 0.75}
"""What a labelled share by name is; the proportional one follows from the sets."""


def batch_shape(split: Split, uses: str, batch_size: int, labelled_share: str) -> tuple[int, int, int]:
    """(N, M, steps): the rows of each kind in a batch, and the full batches in an epoch.

    An epoch is a pass over all images; with a share that is a number, over the labelled ones.
    """
    n_l, n_u = len(split.labelled), len(split.unlabelled)
    if uses == "labelled":
        N = min(batch_size, n_l)
        return N, 0, n_l // N
    if uses == "unlabelled":
        M = min(batch_size, n_u)
        return 0, M, n_u // M
    size = min(batch_size, n_l + n_u)
    share = SHARES.get(labelled_share, n_l / (n_l + n_u))
    N = min(max(round(size * share), 1), size - 1)
    steps = (n_l + n_u) // size if labelled_share == "proportional" else n_l // N
    return N, size - N, max(steps, 1)
