"""Targets from neighbours against loops, and what sharpening does."""

import math

import pytest
import torch
import torch.nn.functional as F

from newfound.pseudo.neighbours import neighbour_targets, sharpened


def test_targets_are_the_weighted_mean_of_the_remembered_ones() -> None:
    torch.manual_seed(0)
    V, K, M, S, D, C, tau = 2, 2, 3, 5, 4, 3, 0.1
    features, remembered = (F.normalize(torch.randn(V, K, n, D), dim=-1) for n in (M, S))
    targets = torch.randn(V, K, S, C).softmax(-1)
    found = neighbour_targets(features, remembered, targets, tau)
    assert found.shape == (V, K, M, C)
    for v in range(V):
        for k in range(K):
            for i in range(M):
                cosines = [
                    sum(a * b for a, b in zip(features[v, k, i].tolist(), row.tolist(), strict=True))
                    for row in remembered[v, k]
                ]
                weights = [math.exp(cosine / tau) for cosine in cosines]
                for c in range(C):
                    mean = sum(w * t for w, t in zip(weights, targets[v, k, :, c].tolist(), strict=True))
                    assert found[v, k, i, c].item() == pytest.approx(mean / sum(weights), rel=1e-4)


@pytest.mark.parametrize("temperature", [0.25, 0.5, 1.0])
def test_sharpening_raises_to_a_power_and_normalises(temperature: float) -> None:
    p = [0.5, 0.3, 0.2, 0.0]
    powers = [x ** (1 / temperature) for x in p]
    expected = [x / sum(powers) for x in powers]
    assert sharpened(torch.tensor(p), temperature).tolist() == pytest.approx(expected, rel=1e-5)


def test_neither_has_a_gradient() -> None:
    leaf = torch.rand(1, 2, 3, requires_grad=True)
    assert not neighbour_targets(leaf, leaf, leaf, 0.1).requires_grad
    assert not sharpened(leaf, 0.5).requires_grad


def test_they_are_float32_under_any_autocast() -> None:
    torch.manual_seed(0)
    case = F.normalize(torch.randn(4, 6), dim=-1), F.normalize(torch.randn(9, 6), dim=-1), torch.rand(9, 3)
    with torch.autocast("cpu", torch.bfloat16):
        found = neighbour_targets(*case, 0.1)
    assert torch.equal(found, neighbour_targets(*case, 0.1))
