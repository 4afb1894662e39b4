"""What a run found, class by class: which images show a class best, which are doubtful, what it is like."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]

SHOWN = 10
"""Images of a kind that a class is shown with."""
QUEUE = 30
"""Images of a kind that a person should look at first."""


@dataclass(frozen=True)
class Likeness:
    """A class, and the probability that the images of another class are given for it, on average."""

    name: str
    share: float


@dataclass(frozen=True)
class FoundClass:
    """A novel class; images are rows of the pile."""

    name: str
    size: int
    confidence: float
    """Mean over its images."""
    central: Ints
    """The surest first."""
    doubtful: Ints
    """The least sure first, none of them central."""
    known: Likeness
    """The known class it is most like."""
    novel: Likeness | None
    """The other novel class it is most like, which it might be one with."""


@dataclass(frozen=True)
class Discovery:
    """All that was found in a pile."""

    classes: list[FoundClass]
    assigned: Ints
    """(n,) novel class of each image."""
    confidence: Floats
    """(n,) its probability among the novel classes."""
    least_sure: Ints
    """At most `QUEUE` images."""
    looks_known: Ints
    """Images for which a known class is more probable than every novel one, the clearest first."""


def discovery(novel: Floats, joint: Floats, names: Sequence[str], num_known: int) -> Discovery:
    """Probabilities among novel classes (n, C_u) and among all (n, C), named `names` → what was found."""
    assigned, confidence = novel.argmax(1), novel.max(1)
    ordered = np.argsort(confidence, kind="stable")
    known, most_novel = joint[:, :num_known].max(1), joint[:, num_known:].max(1)
    like_known = np.argsort(most_novel - known, kind="stable")
    found = [
        _class(index, novel, joint, names, num_known, ordered[assigned[ordered] == index])
        for index in range(novel.shape[1])
    ]
    return Discovery(
        found,
        assigned,
        confidence,
        ordered[:QUEUE],
        like_known[known[like_known] > most_novel[like_known]],
    )


def _class(
    index: int, novel: Floats, joint: Floats, names: Sequence[str], num_known: int, rows: Ints
) -> FoundClass:
    """One class from its rows, the least sure first."""
    others = [name for other, name in enumerate(names[num_known:]) if other != index]
    surest = rows[::-1]
    central = surest[: min(SHOWN, -(-len(rows) // 2))]
    return FoundClass(
        name=names[num_known + index],
        size=len(rows),
        confidence=float(novel[rows, index].mean()) if len(rows) else 0.0,
        central=central,
        doubtful=rows[: min(SHOWN, len(rows) - len(central))],
        known=_likest(joint[rows, :num_known], names[:num_known]),
        novel=_likest(np.delete(novel[rows], index, axis=1), others) if others else None,
    )


def _likest(probabilities: Floats, names: Sequence[str]) -> Likeness:
    """(m, K) → the most probable of K classes; of no images, the first with nothing."""
    means = probabilities.mean(0) if len(probabilities) else np.zeros(len(names))
    return Likeness(names[int(means.argmax())], float(means.max()))
