"""Edits applied to classes: pure functions of arrays."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from newfound.review.edits import Edit, Merge, Rename, Split

Ints = NDArray[np.integer]
Floats = NDArray[np.floating]
Choose = Callable[[Split, Ints], Ints]
"""Which part each of some rows goes to, by its place in `parts`."""


def replay(edits: Sequence[Edit], ids: Ints, choose: Choose) -> Ints:
    """Class ids (n,) as they were found → as they are after the edits."""
    now = ids.copy()
    for edit in edits:
        if isinstance(edit, Merge):
            now[np.isin(now, edit.ids)] = edit.into
        elif isinstance(edit, Split):
            rows = np.flatnonzero(now == edit.id)
            now[rows] = np.array([part.id for part in edit.parts])[choose(edit, rows)]
    return now


def by_rows(split: Split, rows: Ints) -> Ints:
    """For images that were there when the class was split."""
    places = {row: place for place, part in enumerate(split.parts) for row in part.rows}
    return np.array([places[row] for row in rows.tolist()], dtype=np.int64)


def by_features(features: Floats) -> Choose:
    """For new images with these features (n, D): the part whose centre is nearest to their direction."""

    def nearest(split: Split, rows: Ints) -> Ints:
        centres = np.array([part.centre for part in split.parts])
        farness = (centres**2).sum(1) - 2 * unit(features[rows]) @ centres.T
        chosen: Ints = farness.argmin(1)
        return chosen

    return nearest


def shares_after(edits: Sequence[Edit], shares: Floats) -> dict[int, Floats]:
    """Probabilities (n, C) of the classes as found → id → (n,) of those that are left.

    An image that is split off takes the share of its class along; of other classes' images, the first part
    keeps the share.
    """
    now = {key: shares[:, key] for key in range(shares.shape[1])}
    for edit in edits:
        if isinstance(edit, Merge):
            now[edit.into] = now[edit.into] + sum(now.pop(key) for key in edit.ids)
        elif isinstance(edit, Split):
            whole = now[edit.id]
            for part in edit.parts[1:]:
                its = np.isin(np.arange(len(whole)), part.rows)
                now[part.id] = np.where(its, whole, 0)
                now[edit.id] = np.where(its, 0, now[edit.id])
    return now


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


def fit(edits: Sequence[Edit], names: Mapping[int, str], ids: Ints) -> bool:
    """Whether each edit is of classes and images that are there when its turn comes."""
    for number, edit in enumerate(edits):
        before = edits[:number]
        there = names_after(before, names).keys()
        if isinstance(edit, Rename):
            fits = len(edit.ids) == len(edit.names) and there >= set(edit.ids)
        elif isinstance(edit, Merge):
            fits = edit.into not in edit.ids and there >= {edit.into, *edit.ids}
        else:
            assert isinstance(edit, Split)
            rows = np.flatnonzero(replay(before, ids, by_rows) == edit.id)
            first, *others = (part.id for part in edit.parts)
            fits = edit.id == first and edit.id in there and not there & set(others)
            fits &= sorted(row for part in edit.parts for row in part.rows) == rows.tolist()
        if not fits:
            return False
    return True


def unit(vectors: Floats) -> Floats:
    """(n, D) → the same at unit length."""
    scaled: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return scaled
