"""DTC's estimate: the number of clusters that fits classes unseen by the network (Han et al., ICCV 2019).

    m* = ceil((argmax a(m) + argmax v(m)) / 2),  a: accuracy on validation classes, v: silhouette

Probe classes are known classes hidden from the network. A semi-supervised k-means clusters their images and
the unlabelled ones into m more clusters than there are probe classes. It is given the clusters of some probe
classes, the anchors; the other probe classes validate it. The estimate is the number of clusters at m* that
have enough unlabelled images.

Deviation: the network is in evaluation mode. An empty cluster keeps its centre. k-means++ is greedy, and the
seeds for m are the first of those for m + 1. Lloyd stops when no sample changes its cluster. At least two
classes validate, since a single one always prefers the fewest clusters. Probes are always the last known
classes (70-79 of CIFAR100-80-10); the published code has ten extra classes for them. The estimate is at most
the largest m tried, since some of the clusters at m* belong to the probes.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import torch

from newfound.core.errors import DataError, Hint, UsageError
from newfound.estimate.trial import EstimateConfig, Features, Trial, Verdict, best_of, most_extra
from newfound.metrics.clustering import hungarian_accuracy, silhouettes
from newfound.pseudo.kmeans import KMeans

FEWEST_SHOWN = 2
"""Known classes that the network must see."""
FEWEST_HIDDEN = 3
"""Probe classes that are needed."""
FEWEST_VALIDATING = 2
"""Probe classes that are not anchors."""
FEWEST_KNOWN = FEWEST_SHOWN + FEWEST_HIDDEN
"""Known classes that are needed."""


def num_probes(num_known: int, config: EstimateConfig) -> int:
    """How many of the known classes are hidden from the network."""
    most = num_known - FEWEST_SHOWN
    if most < FEWEST_HIDDEN:
        raise DataError(
            f"DTC's estimate needs at least {FEWEST_KNOWN} known classes, got {num_known}. Use "
            "estimate.algorithm=gcd.",
            Hint.NUM_NOVEL,
        )
    wanted = config.probe_classes or max(math.ceil(num_known / 8), min(4, (num_known + 1) // 2))
    if not FEWEST_HIDDEN <= wanted <= most:
        raise UsageError(f"estimate.probe_classes must be {FEWEST_HIDDEN} to {most} here, got {wanted}.")
    return wanted


def dtc_trials(
    features: Features, config: EstimateConfig, random: torch.Generator, done: Mapping[int, Trial]
) -> Iterator[Trial]:
    """A trial for each m, on the images of the probe classes and the pile; those `done` are not repeated."""
    p, most = int(features.classes.max()) + 1, most_extra(len(features.pile), config)
    order = torch.randperm(p, generator=random, device=random.device)
    classes = order[features.classes]
    num_anchors = min(max(round(config.anchor_share * p), 1), p - FEWEST_VALIDATING)
    given, free = classes < num_anchors, classes >= num_anchors
    validation = classes[free] - num_anchors
    kmeans = KMeans(
        torch.cat([features.labelled[free], features.pile]),
        p + most,
        random,
        restarts=config.restarts,
        iterations=config.iterations,
        anchors=(features.labelled[given], classes[given]),
    )
    for m in range(most + 1):
        yield done[m] if m in done else _trial(kmeans, p, m, validation, config.theta)


def _trial(kmeans: KMeans, p: int, m: int, validation: torch.Tensor, theta: float) -> Trial:
    clusters = kmeans(p + m).labels
    sizes = clusters[len(validation) :].bincount()
    return Trial(
        extra=m,
        accuracy=hungarian_accuracy(clusters[: len(validation)], validation),
        silhouette=float(silhouettes(kmeans.points, clusters, p + m).mean()),
        num_novel=int((sizes > theta * sizes.max()).sum()),
    )


def dtc_estimate(trials: Sequence[Trial]) -> Verdict:
    """The number half-way between the two criteria; the range is what each prefers alone."""
    by_extra = {trial.extra: trial for trial in trials}
    preferred = {
        "accuracy": best_of({m: trial.accuracy or 0.0 for m, trial in by_extra.items()}),
        "silhouette": best_of({m: trial.silhouette or 0.0 for m, trial in by_extra.items()}),
    }
    m = math.ceil(sum(preferred.values()) / 2)
    numbers = [min(by_extra[each].num_novel, max(by_extra)) for each in (m, *preferred.values())]
    return Verdict(numbers[0], min(numbers), max(numbers), m, preferred)
