"""Soft clustering against its definition as loops."""

import pytest
import torch
from torch import Tensor

from newfound.stages.centres import kl_element_mean, log_student_t, target_distribution


def assignments(z: Tensor, centres: Tensor) -> Tensor:
    """q, one sample and one centre after the other."""
    rows = []
    for sample in z:
        weights = [1 / (1 + sum((a - b) ** 2 for a, b in zip(sample, c, strict=True))) for c in centres]
        rows.append(torch.stack([weight / sum(weights) for weight in weights]))
    return torch.stack(rows)


@pytest.mark.parametrize(("n", "K", "d"), [(7, 3, 3), (1, 2, 5), (4, 1, 2)])
def test_assignments_and_their_gradients_are_those_of_the_definition(n: int, K: int, d: int) -> None:
    torch.manual_seed(0)
    z, centres = (torch.randn(size, d, requires_grad=True) for size in (n, K))
    exact = [leaf.detach().double().requires_grad_() for leaf in (z, centres)]
    q, wanted = log_student_t(z, centres).exp(), assignments(*exact)
    torch.testing.assert_close(q.double(), wanted, rtol=1e-5, atol=1e-7)
    weights = torch.randn(n, K)
    found = torch.autograd.grad((weights * q).sum(), (z, centres))
    expected = torch.autograd.grad((weights.double() * wanted).sum(), exact)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-6)


def test_a_sample_on_its_centre_has_a_finite_gradient() -> None:
    z = torch.zeros(1, 2, requires_grad=True)
    (gradient,) = torch.autograd.grad(log_student_t(z, torch.tensor([[0.0, 0.0], [3.0, 0.0]]))[0, 0], z)
    assert gradient.isfinite().all()


def test_views_are_assigned_one_by_one() -> None:
    torch.manual_seed(0)
    z, centres = torch.randn(2, 5, 3), torch.randn(4, 3)
    both = log_student_t(z, centres)
    assert both.shape == (2, 5, 4)
    assert torch.equal(both[1], log_student_t(z[1], centres))


def test_targets_are_squares_over_the_size_of_the_cluster() -> None:
    torch.manual_seed(0)
    n, K = 6, 4
    q = torch.randn(n, K).softmax(-1)
    p = target_distribution(q)
    for i in range(n):
        weights = [q[i, k].item() ** 2 / sum(q[j, k].item() for j in range(n)) for k in range(K)]
        assert p[i].tolist() == pytest.approx([weight / sum(weights) for weight in weights], rel=1e-5)


def test_divergence_is_the_mean_over_samples_and_clusters() -> None:
    torch.manual_seed(0)
    n, K = 5, 3
    log_q, p = torch.randn(n, K).log_softmax(-1), torch.randn(n, K).softmax(-1)
    p[0] = torch.tensor([1.0, 0.0, 0.0])
    total = 0.0
    for i in range(n):
        for k in range(K):
            if p[i, k] > 0:
                total += (p[i, k].double() * (p[i, k].double().log() - log_q[i, k].double())).item()
    assert kl_element_mean(log_q, p).item() == pytest.approx(total / (n * K), rel=1e-5)
