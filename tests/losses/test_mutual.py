"""Mutual distillation against its definition as loops."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.losses.mutual import mutual_divergence


def unit(*shape: int) -> Tensor:
    return F.normalize(torch.randn(*shape), dim=-1)


def test_it_is_the_mean_of_both_directions_over_the_samples() -> None:
    torch.manual_seed(0)
    M, S, D, tau = 3, 4, 5, 0.2
    q, k, memory = unit(2, M, D), unit(2, M, D), unit(2, S, D)

    def distribution(branch: int, i: int) -> list[float]:
        own = q[branch, i].double().tolist()
        others = [k[branch, i].double().tolist(), *memory[branch].double().tolist()]
        weights = [math.exp(sum(a * b for a, b in zip(own, row, strict=True)) / tau) for row in others]
        return [w / sum(weights) for w in weights]

    total = 0.0
    for i in range(M):
        a, b = distribution(0, i), distribution(1, i)
        for one, other in ((a, b), (b, a)):
            total += sum(x * math.log(x / y) for x, y in zip(one, other, strict=True)) / 2 / M
    assert mutual_divergence(q, k, memory, tau).item() == pytest.approx(total, rel=1e-5)


def test_branches_that_agree_have_nothing_to_learn() -> None:
    torch.manual_seed(0)
    q, k, memory = (unit(1, 3, 5).expand(2, -1, -1) for _ in range(3))
    assert mutual_divergence(q, k, memory, 0.07).item() == pytest.approx(0, abs=1e-6)


def test_both_branches_learn_in_both_views_and_what_they_remember_does_not() -> None:
    torch.manual_seed(0)
    q, k, memory = (unit(2, 3, 5).requires_grad_() for _ in range(3))
    torch.autograd.backward(mutual_divergence(q, k, memory, 0.07))
    for views in (q, k):
        assert views.grad is not None
        assert all(views.grad[branch].any() for branch in range(2))
    assert memory.grad is None
