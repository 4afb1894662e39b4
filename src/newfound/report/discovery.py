"""What a run found, class by class: which images show a class best, which are doubtful, what it is like."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from newfound.report.shown import Shown

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
    """A class with images of the pile, which are rows of it."""

    name: str
    id: int
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
    known: list[FoundClass]
    """Known classes that images of the pile were put into."""
    least_sure: Ints
    """At most `QUEUE` images."""
    looks_known: Ints
    """Images of novel classes that the model takes for known ones, the clearest first."""


def discovery(shown: Shown) -> Discovery:
    """What was found, in words and pictures' rows."""
    known, novel = (
        shown.joint[:, : shown.num_known].max(1),
        shown.joint[:, shown.num_known :].max(1, initial=0),
    )
    like_known = np.argsort(novel - known, kind="stable")
    ordered = np.argsort(shown.confidence, kind="stable")
    return Discovery(
        [_class(shown, index, ordered) for index in range(shown.num_known, len(shown.names))],
        [_class(shown, index, ordered) for index in np.unique(shown.assigned) if index < shown.num_known],
        ordered[:QUEUE],
        like_known[shown.looks_known[like_known]],
    )


def _class(shown: Shown, index: int, ordered: Ints) -> FoundClass:
    """One class; `ordered` are all images, the least sure first."""
    rows = ordered[shown.assigned[ordered] == index]
    surest = rows[::-1]
    central = surest[: min(SHOWN, -(-len(rows) // 2))]
    return FoundClass(
        name=shown.names[index],
        id=shown.ids[index],
        size=len(rows),
        confidence=float(shown.confidence[rows].mean()) if len(rows) else 0.0,
        central=central,
        doubtful=rows[: min(SHOWN, len(rows) - len(central))],
        known=_likest(shown.joint[rows, : shown.num_known], shown.names[: shown.num_known]),
        novel=_likest_novel(shown, rows, index),
    )


def _likest_novel(shown: Shown, rows: Ints, index: int) -> Likeness | None:
    """The most probable novel class for these images but their own; None where there is no other."""
    others = [place for place in range(shown.num_known, len(shown.names)) if place != index]
    shares = shown.novel[rows][:, [place - shown.num_known for place in others]]
    return _likest(shares, [shown.names[place] for place in others]) if others else None


def _likest(probabilities: Floats, names: Sequence[str]) -> Likeness:
    """(m, K) → the most probable of K classes; of no images, the first with nothing."""
    means = probabilities.mean(0) if len(probabilities) else np.zeros(len(names))
    return Likeness(names[int(means.argmax())], float(means.max()))
