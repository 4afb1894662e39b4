"""What an estimate is made of: features, clusterings with more and more clusters, and what they add up to."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from newfound.estimate.config import EstimateConfig


@dataclass(frozen=True)
class Features:
    """What is clustered: N labelled images and M of the pile, D features each."""

    labelled: Tensor
    """(N, D)"""
    classes: Tensor
    """(N,) from 0 on"""
    pile: Tensor
    """(M, D)"""


@dataclass(frozen=True)
class Trial:
    """One clustering, with `extra` clusters beyond one for each class of the labelled images."""

    extra: int
    accuracy: float
    """Hungarian, on the labelled images whose clusters were not given."""
    silhouette: float | None
    """Of all images whose clusters were not given; only DTC asks for it."""
    num_novel: int
    """The number of novel classes, if this is the right clustering."""

    @property
    def in_words(self) -> str:
        """What is told of it as it ends."""
        silhouette = "" if self.silhouette is None else f", silhouette {self.silhouette:.3f}"
        return f"{self.extra} extra clusters: accuracy {self.accuracy:.1%}{silhouette}"


@dataclass(frozen=True)
class Estimate:
    """The number of novel classes, and the least and the most that the criteria would have it."""

    num_novel: int
    low: int
    high: int
    extra: int
    """That of the trial which decided."""
    preferred: Mapping[str, int]
    """Criterion → the `extra` at which it is highest."""


def most_extra(num_unlabelled: int, config: EstimateConfig) -> int:
    """The most clusters beyond the labelled classes that are tried: a class has two images or more."""
    return min(config.max_novel, max(num_unlabelled // 2, 1))


def best_of(values: Mapping[int, float]) -> int:
    """Where the highest value is, the largest place of several."""
    return max(values, key=lambda place: (values[place], place))
