"""The algorithms by name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from newfound.estimate.config import EstimateConfig
from newfound.estimate.dtc import FEWEST_KNOWN, dtc_estimate, dtc_trials, num_probes
from newfound.estimate.gcd import gcd_estimate, gcd_most_trials, gcd_trials
from newfound.estimate.trial import Estimate, Features, Trial


@dataclass(frozen=True)
class Algorithm:
    """From features to a number, one trial after the other."""

    num_hidden: Callable[[int, EstimateConfig], int]
    """Known classes → how many of them the network must not see; their images are the labelled features."""
    most_trials: Callable[[int], int]
    """The most clusters beyond the labelled classes → trials at most."""
    trials: Callable[[Features, EstimateConfig, torch.Generator, Mapping[int, Trial]], Iterator[Trial]]
    estimate: Callable[[Sequence[Trial]], Estimate]


ALGORITHMS = {
    "dtc": Algorithm(num_probes, lambda most: most + 1, dtc_trials, dtc_estimate),
    "gcd": Algorithm(lambda num_known, config: 0, gcd_most_trials, gcd_trials, gcd_estimate),
}


def resolved(config: EstimateConfig, num_known: int) -> EstimateConfig:
    """The same settings with an algorithm that suits the number of known classes."""
    if config.algorithm != "auto":
        return config
    return replace(config, algorithm="dtc" if num_known >= FEWEST_KNOWN else "gcd")
