"""k-means with given clusters through scikit-learn's functions: a loop over restarts, a loop over iterations.

Shapes: n points, a anchors of A classes, D features, k clusters.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.metrics.pairwise import euclidean_distances

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]


def semi_supervised(
    points: Floats, anchors: Floats, classes: Ints, k: int, restarts: int, iterations: int
) -> tuple[Ints, float]:
    """(n, D), (a, D), (a,) → the clusters (n,) of the tightest restart, and its inertia."""
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
    """Greedy k-means++ that goes on from given centres, as scikit-learn's does from a random one."""
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
