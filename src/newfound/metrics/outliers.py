"""Samples that are too far from the centre of their class to belong to it, and the known share of a pile.

A distance is 1 - cosine, in units of the median distance in the class, since some classes are wider than
others. Usual distances are those of labelled samples, each measured from the centre of the others of its
class, so that it is no nearer than a new sample would be. As in conformal prediction, the limit is a distance
that a further sample of the same kind exceeds in 3 % of all cases; this takes at least 33 labelled samples.

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
"""Share of samples like the labelled ones that are within the limit."""
TINY = 1e-6
"""Lower bound of the median distance, for classes of identical samples."""
FARTHEST = 2.0
"""The largest possible distance."""
NEAREST = 10
"""Neighbours in `share_known`, at most."""
MOST = 10_000
"""Samples of each kind among which these neighbours are searched for, at most."""
TRIED = 1000
"""Samples of each kind whose neighbours are searched for, at most."""
SAME = 1 - 1e-5
"""A larger cosine is that of a sample with itself or with a copy."""


@dataclass(frozen=True)
class Extent:
    """How far each class reaches."""

    centres: Floats
    """(C, D) of unit length; zeros for a class without samples"""
    radii: Floats
    """(C,) largest distances from them"""

    @classmethod
    def of(
        cls, vectors: Floats, classes: Ints, num_labelled: int, num_classes: int
    ) -> tuple["Extent", Flags]:
        """Vectors (n, D) in classes (n,), labelled ones first → their extent, and which are outside (n,)."""
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

    The nearer a sample is to its nearest labelled neighbours, compared with those in the pile, the more known
    it looks. Half of the known samples in a pile look more known than the median labelled sample, and hardly
    any novel ones do.
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
    """The mean cosine of unit vectors (n, D) with their k nearest others (m, D): (n,)."""
    cosines = x @ others.T
    cosines[cosines > SAME] = -1
    means: Floats = np.partition(cosines, -k)[:, -k:].mean(1)
    return means


def unit(vectors: Floats) -> Floats:
    """The vectors (n, D) at unit length."""
    scaled: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return scaled
