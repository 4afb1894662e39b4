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


def by_rows(split: Split, rows: Ints) -> Ints:
    """For images that were there when the class was split."""
    places = {row: place for place, part in enumerate(split.parts) for row in part.rows}
    return np.array([places[row] for row in rows.tolist()], dtype=np.int64)


def first_part(split: Split, rows: Ints) -> Ints:
    """For whole classes, of which the first part keeps the id."""
    return np.zeros(len(rows), dtype=np.int64)


def by_features(features: Floats) -> Choose:
    """For new images with these features (n, D): the part whose centre is nearest."""

    def nearest(split: Split, rows: Ints) -> Ints:
        centres = np.array([part.centre for part in split.parts])
        chosen: Ints = (unit(features[rows]) @ unit(centres).T).argmax(1)
        return chosen

    return nearest


def unit(vectors: Floats) -> Floats:
    """(n, D) → the same at unit length."""
    scaled: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return scaled
