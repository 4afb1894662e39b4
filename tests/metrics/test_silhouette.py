"""The silhouette against its definition as loops and against scikit-learn."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import silhouette_score
from torch import Tensor

from newfound.metrics import clustering as module
from newfound.metrics.clustering import silhouettes


def silhouette(points: Tensor, clusters: Tensor, k: int) -> float:
    return float(silhouettes(points, clusters, k).mean())


def loops(points: Tensor, clusters: Tensor) -> float:
    ids, total = sorted(set(clusters.tolist())), 0.0
    for i, x in enumerate(points):
        means = {}
        for c in ids:
            others = [j for j in range(len(points)) if clusters[j] == c and j != i]
            if others:
                means[c] = sum(float((x - points[j]).norm()) for j in others) / len(others)
        own = int(clusters[i])
        if own in means:
            a, b = means[own], min(value for c, value in means.items() if c != own)
            total += (b - a) / max(a, b)
    return total / len(points)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(2, 15), k=st.integers(2, 6), seed=st.integers(0, 99))
def test_the_definition(n: int, k: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    points = torch.randn(n, 3, dtype=torch.float64, generator=random)
    clusters = torch.randint(k, (n,), generator=random)
    clusters[:2] = torch.tensor([0, k - 1])
    assert silhouette(points, clusters, k + 2) == pytest.approx(loops(points, clusters), abs=1e-7)


def test_scikit_learn_and_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    random = torch.Generator().manual_seed(0)
    points, clusters = torch.randn(150, 8, generator=random), torch.arange(150) % 7
    points += 2 * torch.randn(7, 8, generator=random)[clusters]
    wanted = float(silhouette_score(points.numpy(), clusters.numpy()))
    assert silhouette(points, clusters, 7) == pytest.approx(wanted, abs=1e-5)
    monkeypatch.setattr(module, "MOST_DISTANCES", 1000)
    assert silhouette(points, clusters, 7) == pytest.approx(wanted, abs=1e-5)


def test_what_has_no_silhouette_has_zero() -> None:
    points = torch.randn(5, 2)
    assert silhouette(points, torch.zeros(5, dtype=torch.int64), 3) == 0
    assert silhouette(points, torch.arange(5), 5) == 0
    assert silhouette(torch.zeros(4, 2), torch.tensor([0, 0, 1, 1]), 2) == 0
