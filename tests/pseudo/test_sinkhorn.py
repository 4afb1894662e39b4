"""Sinkhorn against the textbook form as float64 loops, and its properties."""

import math
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from newfound.core.records import Task, Views
from newfound.pseudo.sinkhorn import FIRM, Prior, joint_targets, sinkhorn, unified_targets
from tests.methods import definitions
from tests.methods.definitions import SIZES, Sizes, random_case

EPS = 0.05
sizes = st.integers(1, 8)
seeds = st.integers(0, 2**16)


def definition(logits: Tensor, iterations: int = 3) -> Tensor:
    """One matrix (M, C): scale prototypes to 1 / C and samples to 1 / M in turn, then times M."""
    M, C = logits.shape
    q = [[math.exp(logits[i, c].item() / EPS) for i in range(M)] for c in range(C)]
    total = sum(sum(row) for row in q)
    q = [[value / total for value in row] for row in q]
    for _ in range(iterations):
        q = [[value / (sum(row) * C) for value in row] for row in q]
        columns = [sum(q[c][i] for c in range(C)) for i in range(M)]
        q = [[q[c][i] / (columns[i] * M) for i in range(M)] for c in range(C)]
    return torch.tensor([[q[c][i] * M for c in range(C)] for i in range(M)], dtype=torch.float64)


@settings(max_examples=25, deadline=None)
@given(M=sizes, C=sizes, seed=seeds)
def test_is_the_definition(M: int, C: int, seed: int) -> None:
    logits = torch.rand(2, 3, M, C, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    q = sinkhorn(logits, EPS)
    assert q.shape == logits.shape
    for v in range(2):
        for k in range(3):
            # float32 of logits / eps in [-20, 20] leaves about 1e-6 in each logarithm
            torch.testing.assert_close(q[v, k].double(), definition(logits[v, k]), atol=2e-5, rtol=0)


@settings(max_examples=25, deadline=None)
@given(M=sizes, C=sizes, seed=seeds)
def test_learned_sizes_are_the_definition(M: int, C: int, seed: int) -> None:
    """Scale samples to 1, and classes by a power of what would make them equal, in turn."""
    logits = torch.rand(M, C, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    kernel = [[math.exp(value / EPS) for value in row] for row in logits.double().tolist()]
    u = [1 / sum(row) for row in kernel]
    v = [1.0] * C
    for _ in range(3):
        v = [sum(u[i] * kernel[i][c] for i in range(M)) ** -FIRM for c in range(C)]
        u = [1 / sum(kernel[i][c] * v[c] for c in range(C)) for i in range(M)]
    expected = torch.tensor([[u[i] * kernel[i][c] * v[c] for c in range(C)] for i in range(M)])
    found = sinkhorn(logits, EPS, "learned")
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)


def test_learned_sizes_lie_between_equal_ones_and_those_of_the_predictions() -> None:
    logits = torch.tensor([[0.3, 0.0]] * 30 + [[0.0, 0.3]] * 10)
    sizes = {prior: sinkhorn(logits, 0.2, prior)[:, 0].sum().item() for prior in get_args(Prior)}
    predicted = (logits / 0.2).softmax(1)[:, 0].sum().item()
    assert sizes["equal"] == pytest.approx(20, abs=0.2)
    assert 21 < sizes["learned"] < predicted - 1


@settings(max_examples=15, deadline=None)
@given(
    M=sizes,
    C=sizes,
    seed=seeds,
    scale=st.sampled_from([1.0, 1e2, 1e4]),
    prior=st.sampled_from(get_args(Prior)),
)
def test_every_sample_has_a_distribution(M: int, C: int, seed: int, scale: float, prior: Prior) -> None:
    q = sinkhorn(scale * torch.randn(M, C, generator=torch.Generator().manual_seed(seed)), EPS, prior)
    assert (q >= 0).all()
    torch.testing.assert_close(q.sum(-1), torch.ones(M), atol=1e-5, rtol=0)


@settings(max_examples=15, deadline=None)
@given(M=sizes, C=sizes, seed=seeds)
def test_the_classes_share_the_samples_equally(M: int, C: int, seed: int) -> None:
    logits = torch.rand(M, C, generator=torch.Generator().manual_seed(seed))
    q = sinkhorn(logits, eps=0.5, iterations=100)
    torch.testing.assert_close(q.sum(0), torch.full((C,), M / C), atol=1e-3, rtol=0)


def test_a_single_sample_is_shared_among_all_classes() -> None:
    torch.testing.assert_close(sinkhorn(torch.tensor([[0.9, -0.3, 0.1, 0.0]]), EPS), torch.full((1, 4), 0.25))


def test_a_single_class_takes_everything() -> None:
    assert sinkhorn(torch.randn(5, 1), EPS).eq(1).all()


@pytest.mark.parametrize("extreme", [1e4, -1e4])
def test_extreme_logits_stay_finite(extreme: float) -> None:
    logits = torch.zeros(6, 3)
    logits[torch.arange(6), torch.arange(6) % 3] = extreme
    q = sinkhorn(logits, EPS)
    chosen = torch.eye(3).repeat(2, 1)
    torch.testing.assert_close(q, chosen if extreme > 0 else (1 - chosen) / 2)


@pytest.mark.parametrize("prior", get_args(Prior))
def test_no_samples(prior: Prior) -> None:
    assert sinkhorn(torch.empty(2, 4, 0, 5), EPS, prior).shape == (2, 4, 0, 5)


def test_no_gradient_and_float32() -> None:
    q = sinkhorn(torch.randn(4, 3, dtype=torch.bfloat16, requires_grad=True), EPS)
    assert q.dtype == torch.float32
    assert not q.requires_grad


@settings(max_examples=20, deadline=None)
@given(
    N=st.integers(0, 4),
    M=st.integers(0, 4),
    C_l=st.integers(1, 4),
    C_u=st.integers(1, 4),
    L=st.integers(1, 2),
    K=st.integers(1, 3),
)
def test_joint_targets_are_the_definition(N: int, M: int, C_l: int, C_u: int, L: int, K: int) -> None:
    labels = torch.randint(C_l, (N,))
    q = torch.rand(L, K, M, C_u)
    targets = joint_targets(labels, q, C_l)
    expected = torch.zeros(L, K, N + M, C_l + C_u)
    for v in range(L):
        for k in range(K):
            for i in range(N):
                expected[v, k, i, int(labels[i])] = 1
            for j in range(M):
                for c in range(C_u):
                    expected[v, k, N + j, C_l + c] = q[v, k, j, c]
    assert torch.equal(targets, expected)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("which", ["logits", "over"])
def test_unified_targets_are_the_definition(sizes: Sizes, which: str) -> None:
    """Float32 logits / eps reach 20, so that a target is good to about 1e-5 of itself."""
    single, double, batch = random_case(sizes, seed=0)
    views, task = Views(sizes.large, sizes.small), Task(sizes.C_l, sizes.C_u)
    targets = unified_targets(single.outputs()[which], batch, views, task, 0.05)
    expected = definitions.targets(double.outputs()[which], batch.labels, sizes.C_l, sizes.large, 0.05)
    torch.testing.assert_close(targets.double(), expected, rtol=1e-4, atol=1e-6)


def test_every_target_is_a_distribution_over_its_own_classes_without_gradient() -> None:
    sizes = Sizes(N=4, M=6)
    single, _, batch = random_case(sizes, seed=2)
    targets = unified_targets(single.outputs()["logits"], batch, Views(2, 2), Task(3, 2), 0.05)
    assert targets.shape == (2, 2, 10, 5)
    assert not targets.requires_grad
    torch.testing.assert_close(targets.sum(-1), torch.ones(2, 2, 10))
    assert not targets[:, :, :4, 3:].any()
    assert not targets[:, :, 4:, :3].any()


def test_small_crops_and_labelled_rows_do_not_touch_the_pseudo_labels() -> None:
    sizes = Sizes(N=4, M=6)
    single, _, batch = random_case(sizes, seed=3)
    logits = single.outputs()["logits"].detach()
    other = logits.clone()
    other[2:] = 0.5
    other[:, :, :4] = -0.5
    other[..., :3] = 0.1
    first, second = (unified_targets(x, batch, Views(2, 2), Task(3, 2), 0.05) for x in (logits, other))
    assert torch.equal(first, second)


@pytest.mark.parametrize("prior", get_args(Prior))
@pytest.mark.parametrize("which", ["logits", "over"])
def test_targets_of_a_mixed_pile_by_loops(which: str, prior: Prior) -> None:
    """Rows are samples, labelled ones fixed; classes are scaled to their share and samples to 1 in turn."""
    sizes = Sizes(N=4, M=6)
    single, double, batch = random_case(sizes, seed=4)
    task = Task(sizes.C_l, sizes.C_u, pile="mixed")
    views, single_logits = Views(sizes.large, sizes.small), single.outputs()[which]
    targets = unified_targets(single_logits, batch, views, task, 0.05, prior)
    logits = double.outputs()[which].detach()[: sizes.large]
    L, K, B, C = logits.shape
    shares = [1.0 if c < sizes.C_l else sizes.C_u / (C - sizes.C_l) for c in range(C)]
    for v in range(L):
        for k in range(K):
            q = [[math.exp(logits[v, k, i, c].item() / 0.05) for c in range(C)] for i in range(B)]
            for i in range(4):
                q[i] = [float(c == batch.labels[i]) for c in range(C)]
            u, power = ([1.0] * B, 1.0) if prior == "equal" else ([1 / sum(row) for row in q], FIRM)
            for _ in range(3):
                totals = [sum(u[i] * q[i][c] for i in range(B)) / shares[c] for c in range(C)]
                u = [1 / sum(q[i][c] / totals[c] ** power for c in range(C)) for i in range(B)]
            scaled = [[u[i] * q[i][c] / totals[c] ** power for c in range(C)] for i in range(B)]
            expected = torch.tensor(scaled, dtype=torch.float64)
            torch.testing.assert_close(targets[v, k].double(), expected, rtol=1e-4, atol=1e-6)
    assert targets[:, :, 4:, : sizes.C_l].any()
