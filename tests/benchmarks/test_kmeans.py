"""The straightforward k-means finds what ours finds."""

import numpy as np
import pytest
import torch

from benchmarks import kmeans as baseline
from newfound.pseudo.kmeans import Anchors, lloyd


def test_both_converge_to_the_same_clusters_from_the_same_centres() -> None:
    random = torch.Generator().manual_seed(0)
    points, anchors = (torch.randn(n, 3, generator=random) for n in (40, 6))
    classes, start = torch.arange(6) % 2, torch.randn(1, 5, 3, generator=random)
    labels, centres, _ = lloyd(points, start, Anchors.of(anchors, classes, 2), 50)
    fixed = baseline._sums(anchors.numpy(), classes.numpy(), 5)
    theirs = baseline._lloyd(points.numpy(), start[0].numpy(), fixed, 50)
    assert labels[0].tolist() == theirs[0].tolist()
    np.testing.assert_allclose(centres[0], theirs[1], atol=1e-5)


def test_separated_groups_are_found() -> None:
    classes = np.arange(60) % 6
    points = (100 * np.eye(6)[classes] + np.random.RandomState(0).normal(size=(60, 6))).astype(np.float32)
    given = classes < 2
    labels, inertia = baseline.semi_supervised(points[~given], points[given], classes[given], 6, 3, 20)
    assert len(set(zip(labels.tolist(), classes[~given].tolist(), strict=True))) == 4
    assert not np.isin(labels, [0, 1]).any()
    means = np.stack([points[classes == c].mean(0) for c in range(6)])
    assert inertia == pytest.approx(float(np.square(points - means[classes]).sum()), rel=1e-4)
