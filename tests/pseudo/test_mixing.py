"""Mixtures against their definitions as loops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from newfound.pseudo.mixing import larger_shares, mix, mixed_partners

CPU = torch.device("cpu")


def test_a_mixture_is_the_weighted_sum_of_two_rows() -> None:
    torch.manual_seed(0)
    first, second = (torch.rand(4, 3, 2, 2, dtype=torch.float64) for _ in range(2))
    shares = torch.tensor([0.5, 0.7, 1.0, 0.0], dtype=torch.float64)
    mixed = mix(first, second, shares)
    for i, share in enumerate(shares.tolist()):
        torch.testing.assert_close(mixed[i], share * first[i] + (1 - share) * second[i])
    torch.testing.assert_close(mix(first[:, 0, 0], second[:, 0, 0], shares), mixed[:, 0, 0])


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7))
def test_every_unlabelled_sample_meets_a_labelled_and_an_unlabelled_one(N: int, M: int) -> None:
    first, second = (rows.tolist() for rows in mixed_partners(N, M, CPU))
    unlabelled = list(range(N, N + M))
    assert first[:M] == [i % N for i in range(M)]
    assert second[:M] == first[M:] == unlabelled
    assert sorted(second[M:]) == unlabelled
    assert M == 1 or all(a != b for a, b in zip(first[M:], second[M:], strict=True))


@pytest.mark.parametrize("beta", [0.3, 1.0, 4.0])
def test_shares_are_the_larger_parts_of_draws_from_beta(beta: float) -> None:
    torch.manual_seed(0)
    shares = larger_shares(20_000, beta, CPU).double()
    assert shares.min() >= 0.5
    assert shares.max() <= 1
    # max(eta, 1 - eta) is as far from one half as eta, whose variance is 1 / (4 (2 beta + 1)).
    assert (shares - 0.5).square().mean().item() == pytest.approx(1 / (8 * beta + 4), rel=0.05)


def test_shares_of_a_very_uneven_beta_are_finite() -> None:
    torch.manual_seed(0)
    assert larger_shares(1000, 1e-3, CPU).isfinite().all()
