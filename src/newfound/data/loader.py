"""Batches of N labelled and M unlabelled images, augmented on the device.

Deviation: UNO, IIC, ComEx and the RS family draw CIFAR batches from the shuffled union of both sets, so that
their N varies from step to step; a fixed N keeps every shape static. For the same reason the last partial
batch of an epoch is left out, as in UNO and IIC; the RS family and DTC train on it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Literal

import torch
from torch import Tensor

from newfound.core import dist
from newfound.core.errors import UsageError
from newfound.core.files import free_memory
from newfound.core.records import Batch, Views
from newfound.core.seed import generator
from newfound.core.settings import TrainConfig
from newfound.data.augment import Augmenter
from newfound.data.dataset import Split
from newfound.data.images import StreamedImages, on_device, prefetch

KEPT = 0.25
"""The share of free memory that decoded images of a streamed set may fill."""


@dataclass(frozen=True)
class Draw:
    """What differs between batches: the rows, the random numbers that augment them, and fetched images."""

    labelled: Tensor
    """(N,) rows of the labelled set."""
    unlabelled: Tensor
    """(M,) rows of the unlabelled set."""
    noise: Tensor
    """(V, b, noise) uniform random numbers, for this process's share of those rows."""
    pixels: Tensor | None = None
    """(b, 3, H, W) bytes of the same rows, unless the images are on the device."""

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that are there, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


class Loader:
    """Draws the batches of an epoch; the same seed, stage and epoch always give the same ones."""

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
        self.streamed: StreamedImages | None = None
        """Files of both sets."""
        if isinstance(split.labelled, StreamedImages) and isinstance(split.unlabelled, StreamedImages):
            self.streamed = split.labelled.joined(split.unlabelled)
            self.streamed.keep(KEPT * free_memory() / dist.on_this_machine())

    @property
    def batch_size(self) -> int:
        return self.num_labelled + self.num_unlabelled

    def draws(self, epoch: int, first: int = 0) -> Iterator[Draw]:
        """One epoch from its step `first` on, each set shuffled anew."""
        random = generator(self.device, self.seed, self.stage, epoch)
        if self.sampler:
            labelled = self.sampler(self.steps, random)
        else:
            labelled = self._rows(len(self.split.labelled), self.num_labelled, random)
        unlabelled = self._rows(len(self.split.unlabelled), self.num_unlabelled, random)
        shape = (self.views.count, self.batch_size, self.augment.noise)
        for _ in range(first):
            torch.rand(shape, generator=random, device=self.device)
        fetched = self._fetched(labelled[first:], unlabelled[first:])
        for step, pixels in zip(range(first, self.steps), fetched, strict=True):
            # Drawn for the whole batch, whatever the number of processes.
            noise = torch.rand(shape, generator=random, device=self.device)
            yield Draw(labelled[step], unlabelled[step], dist.share(noise, 1), pixels)

    def _fetched(self, labelled: Tensor, unlabelled: Tensor) -> Iterator[Tensor | None]:
        """The images of each step, prefetched; None if they are on the device."""
        if self.split.resident:
            return repeat(None, len(labelled))
        rows = map(self._own, labelled.cpu(), unlabelled.cpu())
        if self.streamed:
            first = len(self.split.labelled)
            return self.streamed.take_each(torch.cat([one, other + first]) for one, other in rows)
        return (on_device(pixels, self.device) for pixels in prefetch(self._pixels, rows))

    def _own(self, labelled: Tensor, unlabelled: Tensor) -> tuple[Tensor, Tensor]:
        """The rows of a batch that this process encodes."""
        return dist.share(labelled, 0, self.num_labelled), dist.share(unlabelled, 0, self.num_unlabelled)

    def _pixels(self, rows: tuple[Tensor, Tensor]) -> Tensor:
        """The images of N labelled and M unlabelled rows; a set without rows is not touched."""
        sets = (self.split.labelled, self.split.unlabelled)
        return torch.cat(
            [images.fetch(index) for images, index in zip(sets, rows, strict=True) if len(index)]
        )

    def batch(self, draw: Draw) -> Batch:
        """The batch of a draw: a pure function on the device."""
        pixels = draw.pixels
        if pixels is None:
            pixels = self._pixels(self._own(draw.labelled, draw.unlabelled))
        views = self.augment(pixels, draw.noise)
        index = torch.cat([draw.labelled, draw.unlabelled])
        return Batch(views, self.split.labels[draw.labelled], index)

    def _rows(self, available: int, wanted: int, random: torch.Generator) -> Tensor:
        """(steps, wanted) rows of consecutive shuffled passes over the set."""
        if not wanted:  # draw no random number: a stage must not depend on a set that it does not use
            return torch.empty(self.steps, 0, dtype=torch.int64, device=self.device)
        needed = self.steps * wanted
        passes = -(-needed // available)
        shuffled = [torch.randperm(available, generator=random, device=self.device) for _ in range(passes)]
        return torch.cat(shuffled)[:needed].view(self.steps, wanted)


SHARES = {"balanced": 0.5, "half": 0.5, "three-quarters": 0.75}
"""Labelled shares by name; `proportional` follows from the sizes of the sets."""


def batch_shape(split: Split, uses: str, batch_size: int, labelled_share: str) -> tuple[int, int, int]:
    """(N, M, steps): labelled and unlabelled rows per batch, and full batches per epoch.

    An epoch draws as many images as there are, or is a pass over the labelled ones if their share is half or
    three-quarters.
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
    steps = (n_l + n_u) // size if labelled_share in ("proportional", "balanced") else n_l // N
    return N, size - N, max(steps, 1)


class ClassSampler:
    """Draws `size` labelled rows per batch with replacement, the same number from each of `classes` classes.

    With few classes per batch, pairs of the same class are not rare.
    """

    def __init__(self, labels: Tensor, classes: int, size: int) -> None:
        counts = labels.bincount()
        present = int((counts > 0).sum())
        if size % classes or classes > present:
            raise UsageError(
                f"Setting 'classes_per_batch' must divide the {size} labelled images of a batch and be at "
                f"most the {present} known classes, got {classes}."
            )
        self.classes, self.images = classes, size // classes
        self.present = counts.nonzero()[:, 0]
        self.by_class = labels.argsort(stable=True)
        self.first, self.counts = counts.cumsum(0) - counts, counts

    def __call__(self, steps: int, random: torch.Generator) -> Tensor:
        """(steps, size) rows of the labelled set."""
        device = self.counts.device
        order = torch.rand(steps, len(self.present), generator=random, device=device).argsort(1)
        classes = self.present[order[:, : self.classes]]
        places = torch.rand(steps, self.classes, self.images, generator=random, device=device)
        place = (places * self.counts[classes][..., None]).long()
        return self.by_class[self.first[classes][..., None] + place].flatten(1)
