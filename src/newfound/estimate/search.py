"""The algorithms that estimate the number of novel classes, by name, and when not to trust the outcome."""

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
"""With fewer known classes than this an estimate is only a hint."""
WIDE = 4
"""How many times the smallest plausible number the largest one is where an estimate does not help."""


@dataclass(frozen=True)
class Algorithm:
    """From features to a number, one trial after the other."""

    num_hidden: Callable[[int, EstimateConfig], int]
    """Known classes → how many to hide from the network; their images are then the labelled features."""
    most_trials: Callable[[int], int] | None
    """Extra clusters at most → trials at most; None: all are made at once."""
    trials: Callable[[Features, EstimateConfig, torch.Generator, Mapping[int, Trial]], Iterator[Trial]]
    verdict: Callable[[Sequence[Trial]], Verdict]
    trained: bool = True
    """Whether the features are those of a network, not the vectors themselves."""


ALGORITHMS = {
    "dtc": Algorithm(num_probes, lambda most: most + 1, dtc_trials, dtc_estimate),
    "gcd": Algorithm(lambda num_known, config: 0, gcd_most_trials, gcd_trials, gcd_estimate),
    "silhouette": Algorithm(
        lambda num_known, config: 0,
        None,
        peak_trials,
        peak_estimate,
        trained=False,
    ),
}


def resolved(config: EstimateConfig, num_known: int, pile: PileKind, vectors: bool) -> EstimateConfig:
    """The same settings with an algorithm that suits the known classes and the pile.

    DTC's counts every class of the pile, known ones too.
    """
    if config.algorithm == "silhouette" and not vectors:
        raise UsageError(f"{PREFIX}algorithm=silhouette needs vectors, not images.")
    if config.algorithm != "auto":
        return config
    if vectors:
        return replace(config, algorithm="silhouette")
    return replace(config, algorithm="dtc" if num_known >= FEWEST_KNOWN and pile == "novel" else "gcd")


def warnings_for(found: Verdict, num_known: int, num_hidden: int, most: int, allowed: int) -> list[str]:
    """Too few known classes, a wide range, or a best number at an end of what was tried, 0 to `most`.

    `most` is `allowed` unless there are too few images for that.
    """
    warnings = []
    if found.high > WIDE * found.low:
        warnings.append(
            f"cannot tell the number from these features: {found.low} to {found.high} are plausible"
        )
    if num_known < FEW:
        shown = f", {num_known - num_hidden} of them shown to the network" if num_hidden else ""
        classes = "1 known class is" if num_known == 1 else f"{num_known} known classes are"
        warnings.append(f"{classes} few for an estimate{shown}; take the number as a hint")
    if found.extra == (0 if num_hidden else 1):
        warnings.append(
            "the smallest number of clusters is the best, as happens when features do not separate the "
            "classes; there may be more novel classes"
        )
    if found.num_novel and max(found.high, *found.preferred.values()) >= most:
        further = f"raise {PREFIX}max_novel to look further" if most == allowed else "the images are too few"
        warnings.append(f"the largest number of clusters tried is among the best; {further}")
    return warnings
