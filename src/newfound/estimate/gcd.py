"""GCD's estimate: the number of clusters that fits the labelled images best (Vaze et al., CVPR 2022).

    K* = argmax over K of the Hungarian accuracy on labelled images, k-means on all images;  C_u = K* - C_l

Features have unit length, no cluster is given, and no class is hidden from the network.

Deviation: accuracy is a noisy step function of K, on which Brent's method may stop at the first bump, so an
even grid is refined around its best point, halving the step each time. At least one class is novel. If novel
classes merge or split without an effect on the labelled images, accuracy is flat; K* is then the middle of
the plateau. K goes up to `max_novel` above the known classes, not to 1000.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.estimate.trial import EstimateConfig, Features, Trial, Verdict, best_of, most_extra
from newfound.metrics.clustering import hungarian_accuracy
from newfound.pseudo.kmeans import KMeans

GRID = 8
"""Steps of the first grid."""


def gcd_most_trials(most: int) -> int:
    """The most trials that a search can take: the grid, then two each time the step is halved."""
    step = max(most // GRID, 1)
    return len(_grid(most, step)) + 2 * (step.bit_length() - 1)


def _grid(most: int, step: int) -> list[int]:
    return [*range(1, most, step), most]


def gcd_trials(
    features: Features, config: EstimateConfig, random: torch.Generator, done: Mapping[int, Trial]
) -> Iterator[Trial]:
    """A trial for each K that is tried; those `done` are not repeated."""
    C_l, most = int(features.classes.max()) + 1, most_extra(len(features.pile), config)
    points = F.normalize(torch.cat([features.labelled, features.pile]))
    kmeans = KMeans(points, C_l + most, random, restarts=config.restarts, iterations=config.iterations)
    found: dict[int, float] = {}
    step = max(most // GRID, 1)
    wanted = _grid(most, step)
    while wanted:
        for extra in wanted:
            trial = done[extra] if extra in done else _trial(kmeans, features.classes, C_l, extra)
            found[extra] = trial.accuracy or 0.0
            yield trial
        best, wanted = best_of(found), []
        while step > 1 and not wanted:
            step //= 2
            wanted = [each for each in (best - step, best + step) if 1 <= each <= most and each not in found]


def _trial(kmeans: KMeans, classes: Tensor, C_l: int, extra: int) -> Trial:
    clusters = kmeans(C_l + extra).labels
    return Trial(extra, extra, hungarian_accuracy(clusters[: len(classes)], classes))


def gcd_estimate(trials: Sequence[Trial]) -> Verdict:
    """The middle of the longest plateau at the highest accuracy; its ends are the range."""
    ordered = sorted(trials, key=lambda trial: trial.extra)
    top = max(trial.accuracy or 0.0 for trial in ordered)
    runs = [list(run) for best, run in groupby(ordered, lambda trial: trial.accuracy == top) if best]
    extras = [trial.extra for trial in max(runs, key=len)]
    middle = extras[len(extras) // 2]
    return Verdict(middle, extras[0], extras[-1], middle, {"accuracy": middle})
