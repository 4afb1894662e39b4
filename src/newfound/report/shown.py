"""A pile as a page shows it: with the classes that its review has left."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from newfound.core.errors import RunError
from newfound.experiment.pile import Pile
from newfound.review.replay import by_rows, shares_after
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
    looks_known: NDArray[np.bool_]
    """(n,) whether the model takes an image of a novel class for a known one."""

    @classmethod
    def of(cls, pile: Pile, review: Review) -> "Shown":
        _check_same(pile, review)
        known, names = review.num_known, review.names
        place = {key: index for index, key in enumerate(names)}
        none = np.zeros((len(pile.novel), known), dtype=pile.novel.dtype)
        parts = by_rows(len(pile.novel))
        novel = shares_after(review.edits, np.concatenate([none, pile.novel], axis=1), parts)
        joint = shares_after(review.edits, pile.joint, parts)
        return cls(
            names=list(names.values()),
            ids=list(names),
            num_known=known,
            novel=np.stack([novel[key] for key in names], axis=1)[:, known:],
            joint=np.stack([joint[key] for key in names], axis=1),
            assigned=np.array([place[key] for key in review.ids.tolist()], dtype=np.int64),
            confidence=pile.novel[np.arange(len(pile.novel)), review.assignments.clusters],
            looks_known=review.looks_known,
        )


def _check_same(pile: Pile, review: Review) -> None:
    if list(review.assignments.images) != list(pile.images.names):
        raise RunError(
            f"{review.folder.assignments} must list the images as the run wrote them; got others, or another "
            "order; bring it back"
        )
