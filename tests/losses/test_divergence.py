"""Mean divergences against their definitions as float64 loops over pairs."""

from collections.abc import Callable
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from newfound.losses.divergence import (
    inter_class,
    intra_class,
    mean_symmetric_cross_entropy,
    mean_symmetric_kl,
    view_symmetric_kl,
)
from tests.methods import definitions
from tests.methods.definitions import SIZES, Sizes, assert_same, assert_same_gradients, random_case

Pair = Callable[[Tensor, Tensor], Tensor]
sizes = st.integers(1, 5)
seeds = st.integers(0, 2**16)


def symmetric_kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """1/2 [KL(p || q) + KL(q || p)] of two vectors (C,)."""
    forwards = (log_p.exp() * (log_p - log_q)).sum()
    backwards = (log_q.exp() * (log_q - log_p)).sum()
    return (forwards + backwards) / 2


def symmetric_cross_entropy(log_p: Tensor, log_q: Tensor) -> Tensor:
    """1/2 [H(p, q) + H(q, p)] of two vectors (C,)."""
    return -((log_p.exp() * log_q).sum() + (log_q.exp() * log_p).sum()) / 2


def mean_definition(log_p: Tensor, log_q: Tensor, of_pair: Pair = symmetric_kl) -> Tensor:
    """(V, K, N, C), (V, K, M, C) → (V, K)."""
    V, K, N, _ = log_p.shape
    M = log_q.shape[2]
    return torch.stack(
        [
            torch.stack([of_pair(log_p[v, k, i], log_q[v, k, j]) for i in range(N) for j in range(M)]).mean()
            for v in range(V)
            for k in range(K)
        ]
    ).view(V, K)


def view_definition(log_p: Tensor) -> Tensor:
    """(V, K, B, C) → (K, B)."""
    V, K, B, _ = log_p.shape
    return torch.stack(
        [
            torch.stack(
                [symmetric_kl(log_p[a, k, i], log_p[b, k, i]) for a in range(V) for b in range(a + 1, V)]
            ).mean()
            for k in range(K)
            for i in range(B)
        ]
    ).view(K, B)


def log_probabilities(cosines: Tensor, tau: float = 0.1) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A float32 leaf and its log-probabilities, and the same in float64."""
    leaf = cosines.clone().requires_grad_()
    copy = cosines.double().requires_grad_()
    return leaf, (leaf / tau).log_softmax(-1), copy, (copy / tau).log_softmax(-1)


def compare(loss: Tensor, expected: Tensor, leaf: Tensor, copy: Tensor) -> None:
    """Values to one part in 1e5, where float32 log-probabilities reach -2 / tau; gradients to one in 1e4."""
    assert loss.shape == expected.shape
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=2e-6)
    (grad,) = torch.autograd.grad(loss.sum(), leaf)
    (expected_grad,) = torch.autograd.grad(expected.sum(), copy)
    torch.testing.assert_close(grad.double(), expected_grad, rtol=1e-4, atol=2e-5)


@settings(max_examples=20, deadline=None)
@given(V=st.integers(1, 2), K=st.integers(1, 2), N=sizes, M=sizes, C=sizes, seed=seeds)
def test_mean_over_pairs_is_the_definition(V: int, K: int, N: int, M: int, C: int, seed: int) -> None:
    torch.manual_seed(seed)
    leaf, log_p, copy, log_p64 = log_probabilities(torch.rand(V, K, N + M, C) * 2 - 1)
    loss = mean_symmetric_kl(log_p[..., :N, :], log_p[..., N:, :])
    compare(loss, mean_definition(log_p64[..., :N, :], log_p64[..., N:, :]), leaf, copy)


@settings(max_examples=20, deadline=None)
@given(V=st.integers(1, 2), K=st.integers(1, 2), N=sizes, M=sizes, C=sizes, seed=seeds)
def test_mean_cross_entropy_is_the_definition(V: int, K: int, N: int, M: int, C: int, seed: int) -> None:
    torch.manual_seed(seed)
    leaf, log_p, copy, log_p64 = log_probabilities(torch.rand(V, K, N + M, C) * 2 - 1)
    loss = mean_symmetric_cross_entropy(log_p[..., :N, :], log_p[..., N:, :])
    expected = mean_definition(log_p64[..., :N, :], log_p64[..., N:, :], symmetric_cross_entropy)
    compare(loss, expected, leaf, copy)


def test_cross_entropy_is_the_divergence_and_half_of_either_entropy() -> None:
    log_p, log_q = torch.randn(4, 3).log_softmax(-1), torch.randn(6, 3).log_softmax(-1)
    entropies = [-(x.exp() * x).sum(-1).mean() for x in (log_p, log_q)]
    torch.testing.assert_close(
        mean_symmetric_cross_entropy(log_p, log_q),
        mean_symmetric_kl(log_p, log_q) + (entropies[0] + entropies[1]) / 2,
    )


@settings(max_examples=20, deadline=None)
@given(V=st.integers(2, 4), K=st.integers(1, 2), B=sizes, C=sizes, seed=seeds)
def test_mean_over_views_is_the_definition(V: int, K: int, B: int, C: int, seed: int) -> None:
    torch.manual_seed(seed)
    leaf, log_p, copy, log_p64 = log_probabilities(torch.rand(V, K, B, C) * 2 - 1)
    compare(view_symmetric_kl(log_p), view_definition(log_p64), leaf, copy)


@pytest.mark.parametrize("tau", [0.1, 0.01])
def test_opposite_predictions(tau: float) -> None:
    """One side certain of one class, the other of another: cosines of +1 and -1."""
    cosines = torch.full((2, 1, 4, 3), -1.0)
    cosines[..., :2, 0] = 1
    cosines[..., 2:, 1] = 1
    leaf, log_p, copy, log_p64 = log_probabilities(cosines, tau)
    loss = mean_symmetric_kl(log_p[..., :2, :], log_p[..., 2:, :])
    compare(loss, mean_definition(log_p64[..., :2, :], log_p64[..., 2:, :]), leaf, copy)
    assert loss[0, 0].item() == pytest.approx(2 / tau, rel=1e-5)

    leaf, log_p, copy, log_p64 = log_probabilities(cosines.transpose(0, 2), tau)
    compare(view_symmetric_kl(log_p), view_definition(log_p64), leaf, copy)


def test_nearly_equal_predictions_keep_their_digits() -> None:
    """A divergence of 1e-6 of views that agree to 1e-3, to one part in a thousand; never negative."""
    torch.manual_seed(0)
    logits = torch.randn(1, 3, 2, 50) + 1e-3 * torch.randn(4, 3, 2, 50)
    log_p, log_p64 = logits.log_softmax(-1), logits.double().log_softmax(-1)
    loss = view_symmetric_kl(log_p)
    assert (loss >= 0).all()
    torch.testing.assert_close(loss.double(), view_definition(log_p64), rtol=1e-3, atol=0)


def test_equal_predictions_do_not_diverge() -> None:
    log_p = torch.randn(5).log_softmax(-1)
    assert view_symmetric_kl(log_p.expand(3, 5)).item() == pytest.approx(0, abs=1e-7)
    assert mean_symmetric_kl(log_p.expand(4, 5), log_p.expand(2, 5)).item() == pytest.approx(0, abs=1e-7)


TAU = 0.1


def cross_definition(logits: Tensor, N: int) -> Tensor:
    """The mean over views, heads and pairs of 1/2 [H(p_i, p_j) + H(p_j, p_i)]."""
    V, K, B, _ = logits.shape
    terms = []
    for v in range(V):
        for k in range(K):
            p = (logits[v, k] / TAU).softmax(-1)
            for i in range(N):
                for j in range(N, B):
                    terms.append(-((p[i] * p[j].log()).sum() + (p[j] * p[i].log()).sum()) / 2)
    return definitions.sum_of(terms) / len(terms)


@pytest.mark.parametrize("sizes", SIZES)
def test_inter_class_in_both_forms(sizes: Sizes) -> None:
    single, double, _ = random_case(sizes, seed=0)
    logits, exact = single.outputs()["logits"], double.outputs()["logits"]
    assert_same(inter_class(logits, sizes.N, TAU), definitions.inter(exact, sizes.N, TAU))
    assert_same(inter_class(logits, sizes.N, TAU, "cross"), cross_definition(exact, sizes.N))


@pytest.mark.parametrize("form", ["full", "cross"])
def test_inter_class_of_a_mixed_pile_counts_pairs_by_how_novel_they_are(
    form: Literal["full", "cross"],
) -> None:
    sizes = Sizes()
    single, double, _ = random_case(sizes, seed=3)
    value = inter_class(single.outputs()["logits"], sizes.N, TAU, form, sizes.C_l)
    log_p = (double.outputs()["logits"] / TAU).log_softmax(-1)
    of_pair = symmetric_kl if form == "full" else symmetric_cross_entropy
    terms = [
        head[j, sizes.C_l :].exp().sum().detach() * of_pair(head[i], head[j])
        for head in log_p.flatten(0, 1)
        for i in range(sizes.N)
        for j in range(sizes.N, len(head))
    ]
    expected = torch.stack(terms).mean()
    assert_same(value, expected)
    assert_same_gradients(value + zero(single.over), single, expected + zero(double.over), double)


def test_unlabelled_samples_of_a_mixed_pile_agree_among_all_classes() -> None:
    sizes = Sizes()
    single, double, _ = random_case(sizes, seed=4)
    value = intra_class(single.outputs()["logits"], sizes.N, sizes.C_l, TAU, norm="paper", mixed=True)
    exact = double.outputs()["logits"]
    known = (exact[:, :1, : sizes.N, : sizes.C_l] / TAU).log_softmax(-1)
    others = (exact[:, :, sizes.N :] / TAU).log_softmax(-1)
    assert_same(value, view_definition(known).mean() + view_definition(others).mean())


def test_gradient_of_the_cross_form() -> None:
    sizes = Sizes()
    single, double, _ = random_case(sizes, seed=1)
    loss = inter_class(single.outputs()["logits"], sizes.N, TAU, "cross") + zero(single.over)
    expected = cross_definition(double.outputs()["logits"], sizes.N) + zero(double.over)
    assert_same_gradients(loss, single, expected, double)


def zero(unused: Tensor) -> Tensor:
    return 0 * unused.sum()


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("divergence", "norm"), [("skld", "code"), ("skld", "paper"), ("mse", "code")])
def test_intra_class(
    sizes: Sizes, divergence: Literal["skld", "mse"], norm: Literal["code", "paper"]
) -> None:
    single, double, _ = random_case(sizes, seed=2)
    value = intra_class(single.outputs()["logits"], sizes.N, sizes.C_l, TAU, divergence, norm)
    expected = definitions.intra(double.outputs()["logits"], sizes.N, sizes.C_l, TAU, norm, divergence)
    assert_same(value, expected)


def test_where_both_sets_predict_alike_the_cross_form_alone_sees_how_sure_they_are() -> None:
    flat, steep = torch.zeros(1, 1, 4, 3), torch.tensor([1.0, 0, 0]).expand(1, 1, 4, 3)
    assert inter_class(flat, 2, TAU).item() == inter_class(steep, 2, TAU).item() == 0
    assert inter_class(flat, 2, TAU, "cross") > inter_class(steep, 2, TAU, "cross")


def test_half_precision_logits_go_to_float32_before_the_softmax() -> None:
    """Rounding log-probabilities to half precision first would cost several percent."""
    torch.manual_seed(0)
    logits = torch.rand(2, 3, 8, 6).mul(2).sub(1).to(torch.bfloat16)
    for term in (inter_class, lambda given, N, tau: intra_class(given, N, 3, tau)):
        assert torch.equal(term(logits, 4, TAU), term(logits.float(), 4, TAU))
