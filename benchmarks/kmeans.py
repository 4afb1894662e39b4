"""The speed of an estimate's clusterings: ours, and the same work with scikit-learn's functions on the CPU.

Shapes: n points, a anchors of A classes, D features, k clusters.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

import numpy as np
import sklearn.cluster
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.metrics.pairwise import euclidean_distances
from torch import Tensor

from benchmarks.measure import elapsed
from benchmarks.record import Clustering, KMeansSpeed
from newfound.core.seed import generator
from newfound.pseudo.kmeans import KMeans

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]

RESTARTS = 10
ITERATIONS = 100
ANCHORED = 0.2
"""Share of the classes that have anchors: 6 of 30, as for DTC on CIFAR100."""
SPREAD = 0.25
"""Standard deviation of the class means, with noise of 1 in every feature: the classes overlap a little."""


def kmeans_speed(size: tuple[int, int, tuple[int, ...]], device: torch.device) -> Iterator[KMeansSpeed]:
    """Time all numbers of clusters together: first with anchors, then also without."""
    samples, features, clusters = size
    points, classes = _noisy_classes(samples, features, min(clusters), device)
    given = classes < ANCHORED * min(clusters)
    free, anchors, anchor_classes = points[~given], points[given], classes[given]
    everything, host, anchors_host, classes_host = (
        each.cpu().numpy() for each in (points, free, anchors, anchor_classes)
    )

    def anchored(k: int) -> float:
        return semi_supervised(host, anchors_host, classes_host, k, RESTARTS, ITERATIONS)[1]

    def plain(k: int) -> float:
        model = sklearn.cluster.KMeans(k, n_init=RESTARTS, max_iter=ITERATIONS, tol=0, random_state=0)
        return float(model.fit(everything).inertia_)

    speed = KMeansSpeed(
        samples=samples,
        features=features,
        clusters=list(clusters),
        restarts=RESTARTS,
        semi_supervised=_compared(
            lambda: _ours(free, clusters, (anchors, anchor_classes)),
            lambda: [anchored(k) for k in clusters],
            device,
        ),
    )
    yield speed
    without = _compared(lambda: _ours(points, clusters), lambda: [plain(k) for k in clusters], device)
    yield speed.model_copy(update={"plain": without})


def _noisy_classes(samples: int, features: int, classes: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Points (n, D) scattered around the means of their classes (n,)."""
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
) -> Clustering:
    """Time each once, because it takes long; on a GPU ours after a warm-up."""
    if device.type == "cuda":
        ours()
    (seconds, inertias), (their_seconds, their_inertias) = (_timed(call, device) for call in (ours, theirs))
    ratios = (a / b for a, b in zip(inertias, their_inertias, strict=True))
    return Clustering(
        ours_seconds=seconds,
        scikit_learn_seconds=their_seconds,
        times_as_long=their_seconds / seconds,
        inertia_ratio=fmean(ratios),
    )


def _timed(call: Callable[[], list[float]], device: torch.device) -> tuple[float, list[float]]:
    found: list[float] = []
    return elapsed(lambda: found.extend(call()), device), found


def semi_supervised(
    points: Floats, anchors: Floats, classes: Ints, k: int, restarts: int, iterations: int
) -> tuple[Ints, float]:
    """k-means with anchored clusters, as loops over restarts and iterations.

    (n, D), (a, D), (a,) → the clusters (n,) of the restart with the lowest inertia, and that inertia.
    """
    random = np.random.RandomState(k)
    fixed = _sums(anchors, classes, k)
    A = int(classes.max()) + 1
    means = fixed[0][:A] / fixed[1][:A, None]
    found = []
    for _ in range(restarts):
        centres = _seeded(points, means, k, random)
        labels, centres = _lloyd(points, centres, fixed, iterations)
        inertia = sum(
            float(np.square(samples - centres[ids]).sum())
            for samples, ids in ((points, labels), (anchors, classes))
        )
        found.append((inertia, labels))
    inertia, labels = min(found, key=lambda each: each[0])
    return labels, inertia


def _seeded(points: Floats, centres: Floats, k: int, random: np.random.RandomState) -> Floats:
    """Greedy k-means++ that continues from given centres, where scikit-learn's starts from a random one."""
    trials = 2 + int(math.log(k))
    closest = euclidean_distances(centres, points, squared=True).min(0)
    for _ in range(k - len(centres)):
        marks = random.uniform(size=trials) * closest.sum(dtype=np.float64)
        rows = np.searchsorted(np.cumsum(closest, dtype=np.float64), marks).clip(max=len(points) - 1)
        reached = np.minimum(closest, euclidean_distances(points[rows], points, squared=True))
        best = reached.sum(1).argmin()
        closest, centres = reached[best], np.vstack([centres, points[rows[best]]])
    return centres


def _lloyd(
    points: Floats, centres: Floats, fixed: tuple[Floats, Floats], iterations: int
) -> tuple[Ints, Floats]:
    before = np.full(len(points), -1)
    for _ in range(iterations):
        labels, _ = pairwise_distances_argmin_min(points, centres)
        if (labels == before).all():
            break
        sums, counts = (a + b for a, b in zip(_sums(points, labels, len(centres)), fixed, strict=True))
        centres = np.where(counts[:, None] > 0, sums / counts.clip(min=1)[:, None], centres)
        before = labels
    return labels, centres


def _sums(samples: Floats, labels: Ints, k: int) -> tuple[Floats, Floats]:
    """Sums (k, D) and counts (k,) of the samples in each cluster."""
    ones = np.ones(len(labels), samples.dtype)
    members = csr_matrix((ones, (labels, np.arange(len(labels)))), shape=(k, len(labels)))
    return members @ samples, np.bincount(labels, minlength=k).astype(samples.dtype)
