"""The clusterings of an estimate: ours, and the same work through scikit-learn's functions on the CPU."""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Any

import sklearn.cluster
import torch
from torch import Tensor

from newfound.bench.baseline.kmeans import semi_supervised
from newfound.bench.clock import elapsed
from newfound.core.seed import generator
from newfound.estimate.kmeans import KMeans

RESTARTS, ITERATIONS = 10, 100
ANCHORED = 0.2
"""Part of the classes whose clusters are given: 6 of 30, as DTC has it on CIFAR100."""
SPREAD = 0.25
"""Of the classes' means, beside a noise of 1 in every feature: classes that overlap but can be told apart."""


def kmeans_comparison(
    size: tuple[int, int, tuple[int, ...]], device: torch.device
) -> Iterator[dict[str, Any]]:
    """Seconds for all numbers of clusters together, with anchors, then without as well."""
    samples, features, clusters = size
    points, classes = _noisy_classes(samples, features, min(clusters), device)
    given = classes < ANCHORED * min(clusters)
    free, anchors, anchor_classes = points[~given], points[given], classes[given]
    everything, host, anchors_host, classes_host = (
        each.cpu().numpy() for each in (points, free, anchors, anchor_classes)
    )

    def pieces(k: int) -> float:
        return semi_supervised(host, anchors_host, classes_host, k, RESTARTS, ITERATIONS)[1]

    def theirs(k: int) -> float:
        model = sklearn.cluster.KMeans(k, n_init=RESTARTS, max_iter=ITERATIONS, tol=0, random_state=0)
        return float(model.fit(everything).inertia_)

    found: dict[str, Any] = {"samples": samples, "features": features}
    found |= {"clusters": list(clusters), "restarts": RESTARTS}
    found["semi_supervised"] = _compared(
        lambda: _ours(free, clusters, (anchors, anchor_classes)),
        lambda: [pieces(k) for k in clusters],
        device,
    )
    yield found
    yield found | {
        "plain": _compared(lambda: _ours(points, clusters), lambda: [theirs(k) for k in clusters], device)
    }


def _noisy_classes(samples: int, features: int, classes: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """(n, D) around the means of their classes (n,)."""
    random = generator(device, 0, "kmeans")
    means = SPREAD * torch.randn(classes, features, generator=random, device=device)
    labels = torch.arange(samples, device=device) % classes
    return means[labels] + torch.randn(samples, features, generator=random, device=device), labels


def _ours(
    points: Tensor, clusters: Sequence[int], anchors: tuple[Tensor, Tensor] | None = None
) -> list[float]:
    random = generator(points.device, 0, "seeds")
    model = KMeans(points, max(clusters), random, restarts=RESTARTS, iterations=ITERATIONS, anchors=anchors)
    return [model(k).inertia for k in clusters]


def _compared(
    ours: Callable[[], list[float]], theirs: Callable[[], list[float]], device: torch.device
) -> dict[str, float]:
    """Each once, for it takes long; ours before that once more on a GPU, whose first call prepares it."""
    if device.type == "cuda":
        ours()
    (seconds, inertias), (their_seconds, their_inertias) = (_timed(call, device) for call in (ours, theirs))
    ratios = (a / b for a, b in zip(inertias, their_inertias, strict=True))
    return {
        "ours_seconds": seconds,
        "scikit_learn_seconds": their_seconds,
        "times_as_long": their_seconds / seconds,
        "inertia_ratio": fmean(ratios),
    }


def _timed(call: Callable[[], list[float]], device: torch.device) -> tuple[float, list[float]]:
    found: list[float] = []
    return elapsed(lambda: found.extend(call()), device), found
