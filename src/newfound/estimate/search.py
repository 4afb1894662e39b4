"""The algorithms that estimate the number of novel classes, by name, and warnings about their results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from newfound.core.errors import UsageError
from newfound.core.source import PileKind
from newfound.estimate.dtc import FEWEST_KNOWN, dtc_estimate, dtc_trials, num_probes
from newfound.estimate.gcd import gcd_estimate, gcd_most_trials, gcd_trials
from newfound.estimate.peak import peak_estimate, peak_trials
from newfound.estimate.trial import PREFIX, EstimateConfig, Features, Trial, Verdict

FEW = 10
"""With fewer known classes than this, an estimate is only a hint."""
WIDE = 4
"""A range is too wide to help if its upper end is more than this many times its lower end."""


@dataclass(frozen=True)
class Algorithm:
    """An algorithm that goes from features to a number, one trial after another."""

    num_hidden: Callable[[int, EstimateConfig], int]
    """Number of known classes → how many to hide from the network; only their images are then labelled."""
    most_trials: Callable[[int], int] | None
    """Most extra clusters → most trials; None if all are made at once."""
    trials: Callable[[Features, EstimateConfig, torch.Generator, Mapping[int, Trial]], Iterator[Trial]]
    verdict: Callable[[Sequence[Trial]], Verdict]
    trained: bool = True
    """Whether a network is trained for the features; if not, they are the vectors themselves."""


def _hide_none(num_known: int, config: EstimateConfig) -> int:
    """Hide no class."""
    return 0


ALGORITHMS = {
    "dtc": Algorithm(num_probes, lambda most: most + 1, dtc_trials, dtc_estimate),
    "gcd": Algorithm(_hide_none, gcd_most_trials, gcd_trials, gcd_estimate),
    "silhouette": Algorithm(_hide_none, None, peak_trials, peak_estimate, trained=False),
}


def resolved(config: EstimateConfig, num_known: int, pile: PileKind, vectors: bool) -> EstimateConfig:
    """The settings with `auto` replaced by an algorithm that suits the known classes and the pile.

    DTC's algorithm does not suit a mixed pile, since it counts the known classes in it too.
    """
    if config.algorithm == "silhouette" and not vectors:
        raise UsageError(f"{PREFIX}algorithm=silhouette needs vectors, not images.")
    if config.algorithm != "auto":
        return config
    if vectors:
        return replace(config, algorithm="silhouette")
    return replace(config, algorithm="dtc" if num_known >= FEWEST_KNOWN and pile == "novel" else "gcd")


def warnings_for(found: Verdict, num_known: int, num_hidden: int, most: int, allowed: int) -> list[str]:
    """Warn of few known classes, a wide range, or a best number at either end of those tried.

    `most` is the largest number tried: `allowed`, unless there are too few images for that.
    """
    warnings = []
    if found.high > WIDE * found.low:
        warnings.append(
            f"cannot tell the number from these features: {found.low} to {found.high} are plausible"
        )
    if num_known < FEW:
        shown = f" ({num_known - num_hidden} of them shown to the network)" if num_hidden else ""
        classes = "1 known class is" if num_known == 1 else f"{num_known} known classes are"
        warnings.append(f"{classes} few for an estimate{shown}; take the number as a hint")
    if found.extra == (0 if num_hidden else 1):
        warnings.append(
            "the smallest number of clusters fits best, which happens when features do not separate the "
            "classes; there may be more novel classes"
        )
    if found.num_novel and max(found.high, *found.preferred.values()) >= most:
        further = (
            f"raise {PREFIX}max_novel to try more"
            if most == allowed
            else "there are too few images to try more"
        )
        warnings.append(f"the largest number of clusters tried is among the best; {further}")
    return warnings
