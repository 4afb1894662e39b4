"""The pairwise losses against their definitions as loops."""

import math

import pytest
import torch

from newfound.losses.pairwise import pairwise_bce, pairwise_kl_hinge


def test_bce_is_the_mean_over_all_ordered_pairs() -> None:
    torch.manual_seed(0)
    M, C = 6, 4
    p, q = (torch.randn(M, C).softmax(-1) for _ in range(2))
    same = torch.rand(M, M) < 0.5
    total = 0.0
    for i in range(M):
        for j in range(M):
            alike = sum(a * b for a, b in zip(p[i].tolist(), q[j].tolist(), strict=True))
            total -= math.log(alike + 1e-7) if same[i, j] else math.log(1 - alike + 1e-7)
    torch.testing.assert_close(pairwise_bce(p, q, same), torch.tensor(total / M**2))


def test_bce_stays_finite_where_a_pair_is_surely_wrong() -> None:
    sure = torch.eye(2)
    worst = pairwise_bce(sure, sure, ~torch.eye(2, dtype=torch.bool))
    torch.testing.assert_close(worst, torch.tensor(-math.log(1e-7)), rtol=1e-3, atol=0)


@pytest.mark.parametrize(("M", "C"), [(6, 4), (1, 3), (3, 1)])
def test_kl_hinge_and_its_gradient_are_those_of_the_definition(M: int, C: int) -> None:
    """Each ordered pair: the divergence of i from j, or its hinge; only i is moved."""
    torch.manual_seed(0)
    logits = (3 * torch.randn(M, C)).requires_grad_()
    exact = logits.detach().double().requires_grad_()
    same = torch.rand(M, M) < 0.5
    loss, p = pairwise_kl_hinge(logits.softmax(-1), same, margin=2.0), exact.softmax(-1)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(M):
        for j in range(M):
            target = p[j].detach() + 1e-7
            kl = (target * (target.log() - (p[i] + 1e-7).log())).sum()
            total = total + (kl if same[i, j] else (2 - kl).clamp(min=0))
    torch.testing.assert_close(loss.double(), total / M**2, rtol=1e-5, atol=1e-6)
    (found,), (wanted,) = (
        torch.autograd.grad(value, leaf) for value, leaf in ((loss, logits), (total / M**2, exact))
    )
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-6)


def test_kl_hinge_is_content_beyond_its_margin() -> None:
    sure = torch.eye(2)
    labels = torch.eye(2, dtype=torch.bool)
    assert pairwise_kl_hinge(sure, labels, margin=2.0).item() == pytest.approx(0, abs=1e-6)
    assert pairwise_kl_hinge(sure, ~labels, margin=2.0).item() == pytest.approx((-math.log(1e-7) + 2) / 2)
