"""Outliers against the definition of a box plot's lower whisker."""

import numpy as np
from scipy.stats import iqr

from newfound.metrics.outliers import outliers


def test_far_below_the_others_of_the_same_cluster() -> None:
    random = np.random.default_rng(0)
    fit, clusters = random.normal(size=300), random.integers(0, 3, 300)
    fit[clusters == 1] += 100
    fit[:3] = -50
    wanted = [
        value < np.percentile(fit[clusters == mine], 25) - 1.5 * iqr(fit[clusters == mine])
        for value, mine in zip(fit, clusters, strict=True)
    ]
    assert outliers(fit, clusters).tolist() == wanted
    assert wanted[:3] == [True, True, True]


def test_a_cluster_of_one_has_none() -> None:
    assert outliers(np.array([1.0, 5.0]), np.array([0, 4])).tolist() == [False, False]
