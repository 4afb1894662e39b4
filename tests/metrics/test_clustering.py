"""Tables, assignments and agreement against their definitions as loops and brute force."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from torch import Tensor

from newfound.metrics.clustering import ari, confusion, hungarian_accuracy, match, matched_hits, nmi

tables = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(0, 999)).map(
    lambda s: torch.randint(0, 6, (s[0], s[1]), generator=torch.Generator().manual_seed(s[2]))
)


def best_total(table: Tensor) -> int:
    """The largest sum over one-to-one assignments, every one of them tried."""
    if table.shape[0] > table.shape[1]:
        table = table.T
    few, many = table.shape
    return max(
        sum(int(table[row, column]) for row, column in enumerate(chosen))
        for chosen in permutations(range(many), few)
    )


def draw(num: int, top: int, seed: int) -> Tensor:
    return torch.randint(0, top, (num,), generator=torch.Generator().manual_seed(seed))


def test_confusion_counts_every_pair() -> None:
    predicted, true = draw(50, 4, 0), draw(50, 3, 1)
    expected = np.zeros((4, 3), dtype=np.int64)
    for p, t in zip(predicted.tolist(), true.tolist(), strict=True):
        expected[p, t] += 1
    table = confusion(predicted, true, 4, 3)
    assert table.dtype == torch.int64
    assert table.tolist() == expected.tolist()


def test_confusion_keeps_ids_that_never_occur() -> None:
    table = confusion(torch.tensor([0]), torch.tensor([1]), 3, 2)
    assert table.tolist() == [[0, 1], [0, 0], [0, 0]]


@settings(max_examples=60, deadline=None)
@given(tables)
def test_match_is_the_best_of_all_assignments(table: Tensor) -> None:
    assignment = match(table)
    partners = [t for t in assignment.tolist() if t >= 0]
    assert len(partners) == len(set(partners)) == min(table.shape)
    assert sum(int(table[p, t]) for p, t in enumerate(assignment.tolist()) if t >= 0) == best_total(table)


@settings(max_examples=40, deadline=None)
@given(tables)
def test_matched_hits_belong_to_their_classes(table: Tensor) -> None:
    expected = [0] * table.shape[1]
    for p, t in enumerate(match(table).tolist()):
        if t >= 0:
            expected[t] = int(table[p, t])
    assert matched_hits(table).tolist() == expected


def test_a_predicted_id_without_partner_is_minus_one() -> None:
    assert match(torch.tensor([[5, 0], [0, 0], [0, 4]])).tolist() == [0, -1, 1]


@pytest.mark.parametrize("seed", range(4))
def test_hungarian_accuracy_is_the_best_renaming(seed: int) -> None:
    predicted, true = draw(30, 4, seed), draw(30, 4, seed + 100)
    best = max(
        sum(chosen[p] == t for p, t in zip(predicted.tolist(), true.tolist(), strict=True))
        for chosen in permutations(range(4))
    )
    assert hungarian_accuracy(predicted, true) == best / 30


def test_hungarian_accuracy_with_more_clusters_than_classes() -> None:
    assert hungarian_accuracy(torch.tensor([3, 3, 3, 0]), torch.tensor([0, 1, 1, 1])) == 0.5


def test_nmi_and_ari_are_those_of_scikit_learn() -> None:
    predicted, true = draw(200, 5, 0), draw(200, 4, 1)
    assert nmi(predicted, true) == normalized_mutual_info_score(true.numpy(), predicted.numpy())
    assert ari(predicted, true) == adjusted_rand_score(true.numpy(), predicted.numpy())


def test_nmi_is_the_arithmetic_one() -> None:
    predicted, true = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([0, 0, 0, 1, 1, 1])
    joint = confusion(predicted, true, 3, 2).double().numpy() / 6
    p, t = joint.sum(1), joint.sum(0)
    mutual = sum(
        joint[i, j] * np.log(joint[i, j] / (p[i] * t[j])) for i in range(3) for j in range(2) if joint[i, j]
    )
    entropies = -(p * np.log(p)).sum(), -(t * np.log(t)).sum()
    assert nmi(predicted, true) == pytest.approx(mutual / (sum(entropies) / 2))
