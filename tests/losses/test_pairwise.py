"""The pairwise losses against their definitions as loops."""

import math

import torch

from newfound.losses.pairwise import pairwise_bce


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
