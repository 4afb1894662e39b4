"""Edits applied to classes: pure functions of arrays."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from newfound.metrics.outliers import Flags, Floats, Ints, unit
from newfound.review.edits import UNSORTED_ID, Accept, Edit, Merge, Move, Part, Rename, Split

Choose = Callable[[Split], Ints]
"""A split → the part that each of n images is in (n,), an index of `parts`; arbitrary for other classes."""


def replay(edits: Sequence[Edit], ids: Ints, choose: Choose) -> Ints:
    """Class ids (n,) as discovered → class ids (n,) after the edits."""
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


def shares_after(
    edits: Sequence[Edit], shares: Floats, ids: Iterable[int], choose: Choose
) -> dict[int, Floats]:
    """Probabilities (n, C) of the discovered classes, and their ids → id → (n,) for each class that is left.

    The probabilities of merged classes add up. That of a split class goes to the part that the image is in,
    and that of a class merged into the unsorted group to the group.
    """
    now = {key: shares[:, place] for place, key in enumerate(ids)}
    now[UNSORTED_ID] = np.zeros(len(shares), shares.dtype)
    for edit in edits:
        if isinstance(edit, Merge):
            now[edit.into] = now[edit.into] + sum(now.pop(key) for key in edit.ids)
        elif isinstance(edit, Split):
            whole, places = now[edit.id], choose(edit)
            now |= {part.id: np.where(places == place, whole, 0) for place, part in enumerate(edit.parts)}
    return now


def by_rows(number: int) -> Choose:
    """Choose parts for the `number` images of the run: the part each was put in, or the first."""

    def stored(split: Split) -> Ints:
        places = np.zeros(number, dtype=np.int64)
        for place, part in enumerate(split.parts):
            places[part.rows] = place
        return places

    return stored


def by_features(features: Floats) -> Choose:
    """Choose parts for new images with features (n, D): the part with the nearest centre."""

    def nearest(split: Split) -> Ints:
        centres = np.array([part.centre for part in split.parts])
        distances = (centres**2).sum(1) - 2 * unit(features) @ centres.T
        chosen: Ints = distances.argmin(1)
        return chosen

    return nearest


def split_parts(features: Floats, rows: Ints, ids: Sequence[int], names: Sequence[str]) -> list[Part]:
    """Features (n, D) of the images in `rows` → parts by k-means on directions, the largest first.

    There are fewer parts than ids if too few images differ.
    """
    import warnings

    from sklearn.cluster import KMeans  # slow to import
    from sklearn.exceptions import ConvergenceWarning

    directions = unit(features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clusters = KMeans(len(ids), n_init=10, random_state=0).fit_predict(directions)
    sizes = np.bincount(clusters, minlength=len(ids))
    return [
        Part(
            id=key,
            name=name,
            rows=rows[clusters == cluster].tolist(),
            centre=directions[clusters == cluster].mean(0).round(5).tolist(),
        )
        for key, name, cluster in zip(ids, names, np.argsort(-sizes, kind="stable"), strict=True)
        if sizes[cluster]
    ]


def accepted_after(edits: Sequence[Edit], number: int) -> Flags:
    """(n,) whether a person has confirmed or chosen the class of each of `number` images."""
    accepted = np.zeros(number, dtype=bool)
    for edit in edits:
        if isinstance(edit, Accept | Move):
            accepted[edit.rows] = True
    return accepted


def names_after(edits: Sequence[Edit], names: Mapping[int, str]) -> dict[int, str]:
    """Id → name of the classes that are left after the edits."""
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
    """Whether the edits refer only to classes and images that exist; `ids` (n,) as discovered."""
    try:
        none = np.zeros((1, len(names)))
        classes = set(shares_after(edits, none, names, lambda split: np.zeros(1, np.int64)))
        accepted_after(edits, len(ids))
        used = set(replay(edits, ids, by_rows(len(ids))).tolist())
        return used <= classes == {*names_after(edits, names), UNSORTED_ID}
    except (KeyError, IndexError, ValueError):
        return False
