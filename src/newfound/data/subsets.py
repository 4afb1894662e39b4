"""Rows by their place within their class, whatever the order of the files."""

import numpy as np
import numpy.typing as npt

from newfound.core.errors import UsageError

Rows = npt.NDArray[np.int64]
TEST_EVERY = 5
"""One image in so many of each class is kept for test, where there are no test images."""


def rank_in_class(labels: npt.NDArray[np.generic]) -> Rows:
    """(n,) classes → (n,): how many rows of the same class come before each row."""
    order = np.argsort(labels, kind="stable")
    grouped = labels[order]
    rank = np.empty(len(labels), np.int64)
    rank[order] = np.arange(len(labels)) - np.searchsorted(grouped, grouped)
    return rank


def check_subset(subset: int | None) -> None:
    if subset is not None and subset < 1:
        raise UsageError(
            f"subset must be at least 1 image of each class; got {subset}; leave it out to use all"
        )
