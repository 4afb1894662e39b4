"""The squared error between views against its definition as float64 loops."""

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from newfound.losses.consistency import view_mse


@settings(max_examples=20, deadline=None)
@given(
    V=st.integers(2, 4),
    K=st.integers(1, 2),
    B=st.integers(1, 4),
    C=st.integers(1, 5),
    seed=st.integers(0, 2**16),
)
def test_is_the_definition(V: int, K: int, B: int, C: int, seed: int) -> None:
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
