"""The loss of mixtures against its definition as loops."""

import pytest
import torch

from newfound.losses.mixing import squared_error


def test_it_is_the_mean_squared_distance_of_those_that_count() -> None:
    torch.manual_seed(0)
    logits, targets = torch.randn(5, 4), torch.randn(5, 4).softmax(-1)
    counted = torch.tensor([True, False, True, True, False])
    p, t = logits.double().softmax(-1).tolist(), targets.tolist()
    distances = [sum((p[i][c] - t[i][c]) ** 2 for c in range(4)) for i in (0, 2, 3)]
    assert squared_error(logits, targets, counted).item() == pytest.approx(sum(distances) / 3, rel=1e-5)
    everything = torch.ones(5, dtype=torch.bool)
    assert squared_error(logits, targets) == pytest.approx(squared_error(logits, targets, everything))


def test_it_is_nothing_where_none_counts() -> None:
    logits = torch.randn(3, 2, requires_grad=True)
    loss = squared_error(logits, torch.zeros(3, 2), torch.zeros(3, dtype=torch.bool))
    torch.autograd.backward(loss)
    assert loss == 0
    assert logits.grad is not None
    assert not logits.grad.any()
