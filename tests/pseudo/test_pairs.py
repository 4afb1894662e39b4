"""Pair labels against their definitions as loops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from newfound.pseudo.pairs import best_agreement, cosine_above, equal_top_k, wta_agreement


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 12))
def test_top_k_compares_sets_whatever_their_order(seed: int, k: int, M: int) -> None:
    features = torch.rand(M, 5, generator=torch.Generator().manual_seed(seed))
    largest = [set(sorted(range(5), key=lambda d, row=row: -row[d])[:k]) for row in features.tolist()]  # type: ignore[misc]
    expected = [[a == b for b in largest] for a in largest]
    assert equal_top_k(features, k).tolist() == expected


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8))
def test_cosines_do_not_depend_on_lengths(seed: int, M: int) -> None:
    features = torch.randn(M, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    expected = [[bool(a @ b / (a.norm() * b.norm()) > 0.5) for b in features] for a in features * torch.pi]
    assert cosine_above(features, 0.5).tolist() == expected


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 6))
def test_hashes_agree_where_the_same_feature_wins(seed: int, M: int, hashes: int) -> None:
    random = torch.Generator().manual_seed(seed)
    features = torch.rand(M, 5, generator=random)
    windows = torch.rand(hashes, 5, generator=random).argsort(1)[:, :3]
    codes = [[max(window, key=lambda d, row=row: row[d]) for window in windows.tolist()] for row in features]  # type: ignore[misc]
    expected = [[sum(x == y for x, y in zip(a, b, strict=True)) for b in codes] for a in codes]
    assert wta_agreement(features, windows).tolist() == expected


def f1(agreement: list[list[float]], labels: list[int], threshold: int) -> float:
    pairs = [(i, j) for i in range(len(labels)) for j in range(i)]
    found = {(i, j) for i, j in pairs if agreement[i][j] >= threshold}
    right = {(i, j) for i, j in pairs if labels[i] == labels[j]}
    return 2 * len(found & right) / max(len(found) + len(right), 1)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(0, 4))
def test_the_best_agreement_has_the_highest_f1(seed: int, n: int, least: int) -> None:
    random = torch.Generator().manual_seed(seed)
    agreement = torch.randint(6, (n, n), generator=random).float()
    agreement = torch.maximum(agreement, agreement.T).fill_diagonal_(6)
    labels = torch.randint(3, (n,), generator=random)
    scores = {t: f1(agreement.tolist(), labels.tolist(), t) for t in range(least, 7)}
    best = max(t for t in scores if scores[t] == pytest.approx(max(scores.values())))
    assert best_agreement(agreement, labels, least).item() == best


def test_without_a_pair_of_one_class_only_equal_codes_are_believed() -> None:
    agreement = torch.tensor([[8.0, 3.0], [3.0, 8.0]])
    assert best_agreement(agreement, torch.tensor([0, 1]), least=2).item() == 8


def test_pair_labels_carry_no_gradient() -> None:
    features = torch.rand(4, 6, requires_grad=True)
    assert not equal_top_k(features, 2).requires_grad
    assert not cosine_above(features, 0.5).requires_grad
    assert not wta_agreement(features, torch.tensor([[0, 3], [2, 5]])).requires_grad
