"""A class cut into parts."""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from newfound.core.errors import UsageError
from newfound.review.edits import Part
from newfound.review.replay import unit


def parts_of(
    features: NDArray[np.floating], rows: NDArray[np.integer], ids: Sequence[int], names: Sequence[str]
) -> list[Part]:
    """Features (n, D) of the images in `rows` → parts by k-means on directions, the largest first."""
    from sklearn.cluster import KMeans  # slow to import, and most verbs need none of it
    from sklearn.exceptions import ConvergenceWarning

    directions = unit(features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clusters = KMeans(len(ids), n_init=10, random_state=0).fit_predict(directions)
    differing = len(np.unique(clusters))
    if differing < len(ids):
        raise UsageError(
            f"{names[0]!r} must hold {len(ids)} images that differ to be split into as many parts; the model "
            f"tells {differing} apart; ask for fewer parts, or leave it whole"
        )
    order = np.argsort(-np.bincount(clusters, minlength=len(ids)), kind="stable")
    return [
        Part(
            key,
            name,
            rows[clusters == cluster].tolist(),
            directions[clusters == cluster].mean(0).round(5).tolist(),
        )
        for key, name, cluster in zip(ids, names, order, strict=True)
    ]
