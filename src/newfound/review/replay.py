"""Edits applied to classes: pure functions of arrays."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from newfound.review.edits import Edit, Merge, Move, Rename, Split

Ints = NDArray[np.integer]
Floats = NDArray[np.floating]
Choose = Callable[[Split], Ints]
"""Which part of a class each of n images is in, by its place in `parts`; any for those of other classes."""


def replay(edits: Sequence[Edit], ids: Ints, choose: Choose) -> Ints:
    """Class ids (n,) of the pile as they were found → as they are after the edits."""
    now = ids.copy()
    for edit in edits:
        if isinstance(edit, Merge):
            now[np.isin(now, edit.ids)] = edit.into
        elif isinstance(edit, Split):
            parts = np.array([part.id for part in edit.parts])
            now = np.where(now == edit.id, parts[choose(edit)], now)
        elif isinstance(edit, Move):
            now[edit.rows] = edit.into
    return now


def shares_after(edits: Sequence[Edit], shares: Floats, choose: Choose) -> dict[int, Floats]:
    """Probabilities (n, C) of the classes as found → id → (n,) of those that are left.

    Those of merged classes add up; that of a class that was split goes to the part that an image is in.
    """
    now = {key: shares[:, key] for key in range(shares.shape[1])}
    for edit in edits:
        if isinstance(edit, Merge):
            now[edit.into] = now[edit.into] + sum(now.pop(key) for key in edit.ids)
        elif isinstance(edit, Split):
            whole, places = now[edit.id], choose(edit)
            now |= {part.id: np.where(places == place, whole, 0) for place, part in enumerate(edit.parts)}
    return now


def by_rows(number: int) -> Choose:
    """For the `number` images of the pile: the part that each was put in, the first for all others."""

    def remembered(split: Split) -> Ints:
        places = np.zeros(number, dtype=np.int64)
        for place, part in enumerate(split.parts):
            places[part.rows] = place
        return places

    return remembered


def by_features(features: Floats) -> Choose:
    """For new images with these features (n, D): the part whose centre is nearest to their direction."""

    def nearest(split: Split) -> Ints:
        centres = np.array([part.centre for part in split.parts])
        farness = (centres**2).sum(1) - 2 * unit(features) @ centres.T
        chosen: Ints = farness.argmin(1)
        return chosen

    return nearest


def names_after(edits: Sequence[Edit], names: Mapping[int, str]) -> dict[int, str]:
    """Id → name of the classes that are left."""
    now = dict(names)
    for edit in edits:
        if isinstance(edit, Rename):
            now |= dict(zip(edit.ids, edit.names, strict=True))
        elif isinstance(edit, Merge):
            now = {key: name for key, name in now.items() if key not in edit.ids}
        elif isinstance(edit, Split):
            now |= {part.id: part.name for part in edit.parts}
    return now


def fit(edits: Sequence[Edit], names: Mapping[int, str], num_known: int, ids: Ints) -> bool:
    """Whether each edit is of classes and images that are there when its turn comes."""
    return all(_fits(edit, edits[:number], names, num_known, ids) for number, edit in enumerate(edits))


def _fits(edit: Edit, before: Sequence[Edit], names: Mapping[int, str], num_known: int, ids: Ints) -> bool:
    there = names_after(before, names)
    novel = {key for key in there if key >= num_known}
    if isinstance(edit, Rename):
        fits = len(edit.ids) == len(edit.names) and _distinct(edit.ids) and novel >= set(edit.ids)
    elif isinstance(edit, Merge):
        fits = edit.into in there and _distinct([edit.into, *edit.ids]) and novel >= set(edit.ids)
    elif isinstance(edit, Move):
        fits = edit.into in there and all(0 <= row < len(ids) for row in edit.rows)
    else:
        assert isinstance(edit, Split)
        rows = np.flatnonzero(replay(before, ids, by_rows(len(ids))) == edit.id).tolist()
        parts = [part.id for part in edit.parts]
        fits = parts[:1] == [edit.id] and edit.id in novel and _distinct([*there, *parts[1:]])
        fits = fits and sorted(row for part in edit.parts for row in part.rows) == rows
    return fits and _distinct(list(names_after([*before, edit], names).values()))


def _distinct(values: Sequence[object]) -> bool:
    return len(set(values)) == len(values)


def unit(vectors: Floats) -> Floats:
    """(n, D) → the same at unit length."""
    scaled: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return scaled
