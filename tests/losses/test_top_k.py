"""Pair labels against their definition as loops."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from newfound.losses.pairs import equal_top_k


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 12))
def test_top_k_compares_sets_whatever_their_order(seed: int, k: int, M: int) -> None:
    features = torch.rand(M, 5, generator=torch.Generator().manual_seed(seed))
    largest = [set(sorted(range(5), key=lambda d, row=row: -row[d])[:k]) for row in features.tolist()]  # type: ignore[misc]
    expected = [[a == b for b in largest] for a in largest]
    assert equal_top_k(features, k).tolist() == expected


def test_pair_labels_carry_no_gradient() -> None:
    assert not equal_top_k(torch.rand(4, 6, requires_grad=True), 2).requires_grad
