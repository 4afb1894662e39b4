"""Batches of a few classes, so that pairs of one class are not rare."""

import torch
from torch import Tensor

from newfound.core.errors import UsageError


class ClassSampler:
    """Draws batches of `size` labelled rows, as many of each of `classes` classes, with replacement."""

    def __init__(self, labels: Tensor, classes: int, size: int) -> None:
        counts = labels.bincount()
        present = int((counts > 0).sum())
        if size % classes or classes > present:
            raise UsageError(
                f"classes_per_batch must divide the {size} labelled images of a batch and be at most the "
                f"{present} known classes; got {classes}; choose another"
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
