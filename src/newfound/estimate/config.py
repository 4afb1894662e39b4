"""The settings of an estimate: `estimate.key=value`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from newfound.core.config import Count, Overrides, Positive, ProperShare, ShareBelowOne, checked, setting
from newfound.core.errors import unknown

PREFIX = "estimate."
REMEDY = "newfound estimate --help lists them"


@dataclass(frozen=True)
class EstimateConfig:
    """How the number of novel classes is estimated."""

    algorithm: Literal["auto", "dtc", "gcd"] = setting(
        "auto", "whose: dtc hides known classes, gcd does not; auto: dtc if there are enough of them"
    )
    max_novel: Positive = setting(99, "the most novel classes that are looked for")
    probe_classes: Count = setting(
        0, "dtc: known classes that the network never sees; 0: an eighth, at least 4 or a half"
    )
    anchor_share: ProperShare = setting(0.6, "dtc: part of the probe classes whose clusters are given")
    theta: ShareBelowOne = setting(0.01, "dtc: clusters smaller than this part of the largest do not count")
    restarts: Positive = setting(10, "runs of k-means, of which the tightest counts")
    iterations: Positive = setting(100, "the most iterations of one run of k-means")


PUBLISHED: Mapping[str, Overrides] = {"imagenet-30": {"probe_classes": 82, "anchor_share": 0.9, "theta": 0.3}}
"""Benchmark → DTC's values, where they are not those that it has for CIFAR100, our defaults."""


def split_settings(settings: Overrides) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the estimate, without their prefix, and all others."""
    own = {key.removeprefix(PREFIX): value for key, value in settings.items() if key.startswith(PREFIX)}
    return own, {key: value for key, value in settings.items() if not key.startswith(PREFIX)}


def estimate_config(benchmark: str, settings: Overrides) -> EstimateConfig:
    """Defaults, published values, then `settings`; every key and value is checked."""
    values = asdict(EstimateConfig()) | dict(PUBLISHED.get(benchmark.rpartition("-")[0], {}))
    for key in settings:
        if key not in values:
            raise unknown("setting", PREFIX + key, [PREFIX + name for name in values], REMEDY)
    return checked(EstimateConfig, values | dict(settings), PREFIX, REMEDY)
