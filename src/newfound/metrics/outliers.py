"""Which samples are too far from the centre of their class to belong there, and how many of a pile do.

A distance is 1 - cosine, in units of the median distance in the class, since some classes are wider than
others. What is usual is learnt from labelled samples, each measured against the centre of the others of its
class, so that it does not count as nearer than a new one would. As in conformal prediction the limit is a
distance that a further sample like them exceeds in 3 % of all cases; it takes 33 of them to know one.

Shapes: n samples, D features, C classes.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]
Flags = NDArray[np.bool_]

KEPT = 0.97
"""Share of samples like the labelled ones that are near enough to the centres of their classes."""
TINY = 1e-6
"""The least median distance: that of equal samples."""
FARTHEST = 2.0
"""No distance is larger."""
NEAREST, MOST, TRIED = 10, 10_000, 1000
"""Of `share_known`: neighbours at most; samples among which they are looked for, and of how many."""
SAME = 1 - 1e-5
"""Cosines above it are of a sample with itself, or with a copy."""


@dataclass(frozen=True)
class Extent:
    """How far each class reaches."""

    centres: Floats
    """(C, D) of unit length; zeros for a class without samples."""
    radii: Floats
    """(C,) the largest distances from them."""

    @classmethod
    def of(
        cls, vectors: Floats, classes: Ints, num_labelled: int, num_classes: int
    ) -> tuple["Extent", Flags]:
        """Vectors (n, D) in classes (n,), labelled ones first → their extent, and (n,) which are outside."""
        x, distances = unit(vectors), np.zeros(len(vectors), vectors.dtype)
        centres = np.zeros((num_classes, vectors.shape[1]), vectors.dtype)
        widths, usual = np.ones(num_classes, vectors.dtype), [distances[:0]]
        for place in range(num_classes):
            rows = np.flatnonzero(classes == place)
            if not len(rows):
                continue
            centres[place] = total = x[rows].sum(0)
            along = x[rows] @ total
            others = np.sqrt(np.maximum(total @ total - 2 * along + 1, 1e-12))
            distances[rows] = 1 - (along - 1) / others
            widths[place] = max(float(np.median(distances[rows])), TINY)
            if len(rows) > 1:
                usual.append(distances[rows[rows < num_labelled]] / widths[place])
        ranked = np.sort(np.concatenate(usual))
        rank = math.ceil(KEPT * (len(ranked) + 1))
        radii = widths * ranked[rank - 1] if rank <= len(ranked) else np.full_like(widths, FARTHEST)
        return cls(unit(centres), radii), distances > radii[classes]

    def outside(self, vectors: Floats, classes: Ints) -> Flags:
        """Which new vectors (n, D) are too far from the centres of their classes (n,)."""
        far: Flags = 1 - (unit(vectors) * self.centres[classes]).sum(1) > self.radii[classes]
        return far


def share_known(labelled: Floats, pile: Floats, num_known: int) -> float:
    """The share of a pile (m, D) that seems to be of the known classes of labelled samples (n, D).

    A sample is like known ones if its nearest labelled neighbours are nearer than those in the pile. Half of
    the known samples in a pile are more so than the median of the labelled ones, and hardly any others.
    """
    random = np.random.default_rng(0)
    some = [each[random.permutation(len(each))[:MOST]] for each in (labelled, pile)]
    mean = np.concatenate(some).mean(0)
    known, others = (unit(each - mean) for each in some)
    k = max(min(NEAREST, len(labelled) // (4 * num_known), len(pile) - 1), 1)
    usual, found = (
        _nearness(each[:TRIED], known, k) - _nearness(each[:TRIED], others, k) for each in (known, others)
    )
    return min(2 * float((found > np.median(usual)).mean()), 1.0)


def _nearness(x: Floats, others: Floats, k: int) -> Floats:
    """The mean cosine of unit vectors (n, D) with the k nearest others (m, D): (n,)."""
    cosines = x @ others.T
    cosines[cosines > SAME] = -1
    means: Floats = np.partition(cosines, -k)[:, -k:].mean(1)
    return means


def unit(vectors: Floats) -> Floats:
    """(n, D) → the same at unit length."""
    scaled: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return scaled
