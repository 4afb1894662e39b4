"""The parts of an estimate: its settings, a trial for each number of clusters, and the verdict."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from newfound.core.errors import check_known
from newfound.core.settings import Count, Overrides, Positive, ProperShare, ShareBelowOne, checked, setting

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = "estimate."


@dataclass(frozen=True)
class EstimateConfig:
    """How the number of novel classes is estimated."""

    algorithm: Literal["auto", "dtc", "gcd", "silhouette"] = setting(
        "auto",
        "dtc hides known classes from the network, gcd does not, silhouette is for vectors and needs no "
        "network; auto: silhouette for vectors; for images dtc, or gcd if the pile is mixed or known classes "
        "are few",
    )
    max_novel: Positive = setting(99, "largest number of novel classes to consider")
    probe_classes: Count = setting(
        0, "dtc: known classes hidden from the network; 0: an eighth, but at least 4, or half if fewer than 8"
    )
    anchor_share: ProperShare = setting(0.6, "dtc: share of the probe classes whose clusters are given")
    theta: ShareBelowOne = setting(0.01, "dtc: clusters below this share of the largest do not count")
    restarts: Positive = setting(10, "dtc, gcd: k-means restarts; the tightest clustering is kept")
    iterations: Positive = setting(100, "dtc, gcd: iterations of k-means, at most")


PUBLISHED: Mapping[str, Overrides] = {"imagenet-30": {"probe_classes": 82, "anchor_share": 0.9, "theta": 0.3}}
"""DTC's values for a benchmark; our defaults are its values for CIFAR100."""


def estimate_config(benchmark: str, settings: Overrides) -> EstimateConfig:
    """The defaults, overridden by published values, then by `settings` (keys without prefix), all checked."""
    values = asdict(EstimateConfig()) | dict(PUBLISHED.get(benchmark.rpartition("-")[0], {}))
    for key in settings:
        check_known("setting", PREFIX + key, [PREFIX + name for name in values])
    return checked(EstimateConfig, values | dict(settings), PREFIX, None)


@dataclass(frozen=True)
class Features:
    """The features to cluster: of N labelled and M unlabelled images, D each."""

    labelled: "Tensor"
    """(N, D)"""
    classes: "Tensor"
    """(N,) counted from 0"""
    pile: "Tensor"
    """(M, D)"""
    mixed: bool = False
    """Whether some images of the pile are of the labelled classes."""


@dataclass(frozen=True)
class Trial:
    """One clustering, with `extra` more clusters than there are classes of labelled images."""

    extra: Count
    num_novel: Count
    """The number of novel classes if this is the right clustering."""
    accuracy: float | None = None
    """Hungarian accuracy on the labelled images whose clusters were not given; None if there are none."""
    silhouette: float | None = None
    """Mean silhouette of all images whose clusters were not given; None for GCD's algorithm."""
    counted: float | None = None
    """The number of novel classes that all trials together suggest, if the algorithm tells."""
    missed_by: float | None = None
    """The factor by which `counted` may usually be off; None if unknown."""

    def __str__(self) -> str:
        accuracy = [] if self.accuracy is None else [f"accuracy {self.accuracy:.1%}"]
        silhouette = [] if self.silhouette is None else [f"silhouette {self.silhouette:.3f}"]
        return f"{self.extra} extra clusters: {', '.join(accuracy + silhouette)}"


@dataclass(frozen=True)
class Verdict:
    """The number of novel classes, with the smallest and the largest plausible number."""

    num_novel: int
    low: int
    high: int
    extra: int | None
    """`extra` of the trial that decided; None if all trials together did."""
    preferred: dict[str, int]
    """Criterion → the `extra` at which it peaks."""


def most_extra(num_unlabelled: int, config: EstimateConfig) -> int:
    """The most extra clusters to try; a class must have at least two images."""
    return min(config.max_novel, max(num_unlabelled // 2, 1))


def best_of(values: Mapping[int, float]) -> int:
    """The key of the highest value; ties go to the largest key."""
    return max(values, key=lambda place: (values[place], place))
