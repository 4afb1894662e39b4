"""Which members of a cluster hardly belong to it."""

import numpy as np
from numpy.typing import NDArray

WHISKERS = 1.5
"""Interquartile ranges below the lower quartile, as in Tukey's box plots."""


def outliers(fit: NDArray[np.floating], clusters: NDArray[np.integer]) -> NDArray[np.bool_]:
    """How well each of n samples fits its cluster, and that cluster → whether others there fit far better."""
    found = np.zeros(len(fit), dtype=bool)
    for cluster in np.unique(clusters):
        members = clusters == cluster
        lower, upper = np.quantile(fit[members], [0.25, 0.75])
        found[members] = fit[members] < lower - WHISKERS * (upper - lower)
    return found
