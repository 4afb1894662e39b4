"""Labels, pairs and agreement of RS, one sample at a time."""

import math

import pytest
import torch

from newfound.losses.pairs import joint_training, pairwise_bce

N, M, WEIGHT = 3, 2, 0.7


def test_three_terms_as_loops() -> None:
    torch.manual_seed(0)
    known, novel = torch.randn(2, N + M, 4), torch.randn(2, N + M, 3)
    labels, same = torch.tensor([2, 0, 3]), torch.eye(M, dtype=torch.bool)
    found = joint_training(known, novel, labels, same, torch.tensor(WEIGHT))

    of_known, of_novel = known.softmax(-1).tolist(), novel.softmax(-1).tolist()
    ce = sum(-math.log(of_known[0][row][labels[row]]) for row in range(N)) / N
    bce = 0.0
    for i in range(M):
        for j in range(M):
            alike = sum(a * b for a, b in zip(of_novel[0][N + i], of_novel[1][N + j], strict=True))
            bce -= math.log((alike if same[i, j] else 1 - alike) + 1e-7) / M**2
    mse = 0.0
    for head in (of_known, of_novel):
        for first, second in zip(*head, strict=True):
            squares = [(a - b) ** 2 for a, b in zip(first, second, strict=True)]
            mse += sum(squares) / len(squares) / (N + M)
    assert found["ce"].item() == pytest.approx(ce, rel=1e-5)
    assert found["bce"].item() == pytest.approx(bce, rel=1e-5)
    assert found["consistency"].item() == pytest.approx(WEIGHT * mse, rel=1e-5)


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
