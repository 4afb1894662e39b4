"""The supervised loss against its definition as float64 loops."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from newfound.losses.classification import view_cross_entropy


@settings(max_examples=15, deadline=None)
@given(V=st.integers(1, 3), B=st.integers(1, 4), C=st.integers(1, 5), seed=st.integers(0, 2**16))
def test_is_the_definition(V: int, B: int, C: int, seed: int) -> None:
    torch.manual_seed(seed)
    logits = (torch.rand(V, B, C) * 2 - 1).requires_grad_()
    labels = torch.randint(C, (B,))
    copy = logits.detach().double().requires_grad_()
    rows = [
        (copy[v, i] / 0.1).exp().sum().log() - copy[v, i, int(labels[i])] / 0.1
        for v in range(V)
        for i in range(B)
    ]
    expected = torch.stack(rows).mean()
    loss = view_cross_entropy(logits, labels, 0.1)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    (grad,) = torch.autograd.grad(loss, logits)
    (expected_grad,) = torch.autograd.grad(expected, copy)
    torch.testing.assert_close(grad.double(), expected_grad, rtol=1e-4, atol=1e-5)


def test_extreme_logits_stay_finite() -> None:
    logits = torch.tensor([[[1.0, -1.0]]], requires_grad=True)
    loss = view_cross_entropy(logits, torch.tensor([1]), 0.001)
    torch.testing.assert_close(loss, torch.tensor(2000.0))
