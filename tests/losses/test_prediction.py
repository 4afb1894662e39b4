"""The swapped cross-entropy against its definition as float64 loops over pairs of views."""

import math
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from newfound.core.records import Clock
from newfound.losses.prediction import ramp_up, swapped_cross_entropy, view_mse

Axis = Literal["class", "batch"]
axes = st.sampled_from(["class", "batch"])


def definition(logits: Tensor, targets: Tensor, tau: float, axis: Axis) -> Tensor:
    V, K, B, C = logits.shape
    L = len(targets)
    heads = []
    for k in range(K):
        total = torch.zeros((), dtype=torch.float64)
        for v in range(L):
            for w in range(V):
                if w == v:
                    continue
                scaled = logits[w, k] / tau
                if axis == "class":
                    for i in range(B):
                        total = total - (targets[v, k, i] * scaled[i].log_softmax(0)).sum() / B
                else:
                    for c in range(C):
                        total = total - (targets[v, k, :, c] * scaled[:, c].log_softmax(0)).sum() / C
        heads.append(total / (L * (V - 1)))
    return torch.stack(heads)


def compare(logits: Tensor, targets: Tensor, tau: float, axis: Axis) -> None:
    """Values and gradients; the losses reach 1 / tau times a few, float32 gives them to 1e-6 of that."""
    logits = logits.requires_grad_()
    copy = logits.detach().double().requires_grad_()
    loss, expected = (
        swapped_cross_entropy(logits, targets, tau, axis),
        definition(copy, targets.double(), tau, axis),
    )
    assert loss.shape == expected.shape
    torch.testing.assert_close(loss.double(), expected, rtol=2e-6, atol=2e-5)
    weight = torch.arange(1.0, len(loss) + 1)
    (grad,) = torch.autograd.grad((loss * weight).sum(), logits)
    (expected_grad,) = torch.autograd.grad((expected * weight).sum(), copy)
    torch.testing.assert_close(grad.double(), expected_grad, rtol=1e-4, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    V=st.integers(2, 4),
    few=st.integers(1, 2),
    K=st.integers(1, 3),
    B=st.integers(1, 5),
    C=st.integers(1, 5),
    axis=axes,
    seed=st.integers(0, 2**16),
)
def test_is_the_definition(V: int, few: int, K: int, B: int, C: int, axis: Axis, seed: int) -> None:
    torch.manual_seed(seed)
    targets = torch.randn(min(few, V), K, B, C).softmax(-1)
    compare(torch.rand(V, K, B, C) * 2 - 1, targets, 0.1, axis)


@pytest.mark.parametrize("axis", ["class", "batch"])
@pytest.mark.parametrize("tau", [0.1, 0.01])
def test_extreme_logits(axis: Axis, tau: float) -> None:
    """Cosines of +1 and -1, as far apart as a cosine classifier can say, against one-hot targets."""
    logits = torch.tensor([1.0, -1.0]).repeat(4, 2, 6, 2)
    targets = torch.eye(4)[[0, 1, 2, 3, 0, 1]].expand(2, 2, 6, 4)
    compare(logits, targets, tau, axis)


def test_weights_of_the_crops() -> None:
    """Two large and two small crops: a large one is predicted once, a small one twice, of six in all."""
    logits = torch.zeros(4, 1, 1, 2, requires_grad=True)
    targets = torch.tensor([1.0, 0.0]).expand(2, 1, 1, 2)
    (grad,) = torch.autograd.grad(swapped_cross_entropy(logits, targets, 1.0).sum(), logits)
    torch.testing.assert_close(grad[:, 0, 0, 1], torch.tensor([1, 1, 2, 2]) / 12)


def test_half_precision_logits_are_taken_up_to_float32() -> None:
    targets = torch.randn(1, 2, 4, 3).softmax(-1)
    assert swapped_cross_entropy(torch.randn(2, 2, 4, 3).bfloat16(), targets, 0.1).dtype == torch.float32


@settings(max_examples=20, deadline=None)
@given(
    V=st.integers(2, 4),
    K=st.integers(1, 2),
    B=st.integers(1, 4),
    C=st.integers(1, 5),
    seed=st.integers(0, 2**16),
)
def test_view_mse_is_the_definition(V: int, K: int, B: int, C: int, seed: int) -> None:
    torch.manual_seed(seed)
    p = torch.rand(V, K, B, C, requires_grad=True)
    copy = p.detach().double().requires_grad_()
    rows = []
    for k in range(K):
        for i in range(B):
            pairs = [
                sum(((copy[a, k, i, c] - copy[b, k, i, c]) ** 2 for c in range(C)), torch.zeros(())) / C
                for a in range(V)
                for b in range(a + 1, V)
            ]
            rows.append(sum(pairs, torch.zeros(())) / len(pairs))
    expected = torch.stack(rows).view(K, B)
    loss = view_mse(p)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)
    (grad,) = torch.autograd.grad(loss.sum(), p)
    (expected_grad,) = torch.autograd.grad(expected.sum(), copy)
    torch.testing.assert_close(grad.double(), expected_grad, rtol=1e-5, atol=1e-6)


def test_two_views_are_the_usual_mean_squared_error() -> None:
    p = torch.randn(2, 6, 4).softmax(-1)
    torch.testing.assert_close(view_mse(p).mean(), F.mse_loss(p[0], p[1]))


@pytest.mark.parametrize(("epoch", "epochs"), [(0, 50), (10, 50), (50, 50), (180, 50), (3, 4)])
def test_ramp_is_a_sigmoid_that_ends_at_one(epoch: int, epochs: int) -> None:
    ramp = ramp_up(Clock(torch.tensor(float(epoch))), epochs)
    assert ramp.item() == pytest.approx(math.exp(-5 * (1 - min(epoch, epochs) / epochs) ** 2))


def test_no_ramp_is_the_full_weight_at_once() -> None:
    assert ramp_up(Clock(torch.tensor(0.0)), 0) == 1
