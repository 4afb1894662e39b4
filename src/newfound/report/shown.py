"""A pile as a page shows it: with the classes that its review has left."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from newfound.experiment.pile import Pile
from newfound.review.replay import first_part, replay
from newfound.review.review import Review

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]


@dataclass(frozen=True)
class Shown:
    """n images and C classes, the known ones first."""

    names: Sequence[str]
    ids: Sequence[int]
    """By which a class keeps its colour."""
    num_known: int
    novel: Floats
    """(n, C - C_l) probabilities among the novel classes; what went to known ones is missing."""
    joint: Floats
    """(n, C) probabilities among all."""
    assigned: Ints
    """(n,) class of each image."""
    confidence: Floats
    """(n,) of the model in what it found."""

    @classmethod
    def of(cls, pile: Pile, review: Review) -> "Shown":
        known, named = review.num_known, review.names
        ids = list(named)
        place = {key: index for index, key in enumerate(ids)}
        assigned = np.array([place[key] for key in review.ids.tolist()], dtype=np.int64)
        home = replay(review.edits, np.arange(len(review.found)), first_part)
        home = np.array([place[key] for key in home.tolist()], dtype=np.int64)
        chosen = review.assignments.clusters + known
        novel = np.concatenate([np.zeros_like(pile.joint[:, :known]), pile.novel], axis=1)
        return cls(
            names=list(named.values()),
            ids=ids,
            num_known=known,
            novel=regrouped(novel, len(ids), home, chosen, assigned)[:, known:],
            joint=regrouped(pile.joint, len(ids), home, chosen, assigned),
            assigned=assigned,
            confidence=review.assignments.confidence,
        )


def regrouped(shares: Floats, number: int, home: Ints, chosen: Ints, assigned: Ints) -> Floats:
    """Probabilities of classes as found (n, C_found) → of those that are left (n, C).

    `home` (C_found,) is where each class has gone as a whole; an image that was split off takes the share of
    the class `chosen` for it along, to the one it is `assigned` to.
    """
    out = np.zeros((len(shares), number), dtype=shares.dtype)
    for found, left in enumerate(home):
        out[:, left] += shares[:, found]
    moved = np.flatnonzero(home[chosen] != assigned)
    share = shares[moved, chosen[moved]]
    out[moved, home[chosen[moved]]] -= share
    out[moved, assigned[moved]] += share
    return out
