"""What a run says of its unlabelled images."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newfound.core.learner import Method
from newfound.data.assemble import novel_names
from newfound.data.images import Dataset, ImageSet

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Pile:
    """Unlabelled images as the head sees them that a run reports."""

    images: ImageSet
    scores: Floats
    """(n, C_u) of the novel classes, as the method gives them."""
    logits: Floats
    """(n, C) joint logits, known classes first."""
    names: Sequence[str]
    """Of all classes; the novel ones as in assignments.csv."""
    num_known: int
    comparable: bool
    """Whether the joint logits tell known from novel."""

    @classmethod
    def of(cls, method: Method, data: Dataset, scores: tuple[Tensor, Tensor], head: int) -> "Pile":
        """The unlabelled images of `data`, of which `scores_of` gives `scores`."""
        joint, novel = (numpy_of(each[head]) for each in scores)
        known = data.class_names[: method.task.num_known]
        names = (*known, *novel_names(known, method.task.num_novel))
        return cls(data.split.unlabelled, novel, joint, names, len(known), method.joint)

    @cached_property
    def novel(self) -> Floats:
        """(n, C_u) probabilities among the novel classes."""
        return _softmax(self.scores)

    @cached_property
    def joint(self) -> Floats:
        """(n, C) probabilities among all classes."""
        return _softmax(self.logits)

    def pixels(self, rows: NDArray[np.integer]) -> NDArray[np.uint8]:
        """(m,) → (m, 3, H, W)."""
        found: NDArray[np.uint8] = (
            self.images.take(torch.tensor(rows.tolist(), dtype=torch.int64, device=self.images.device))
            .cpu()
            .numpy()
        )
        return found


def _softmax(scores: Floats) -> Floats:
    return numpy_of(torch.from_numpy(scores).softmax(-1))


def numpy_of(values: Tensor) -> Floats:
    """float32 values from whichever device."""
    found: Floats = values.cpu().numpy()
    return found
