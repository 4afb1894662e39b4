"""Distillation against its definition as float64 loops, gradients through the weights included."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from newfound.losses.distillation import relation_distillation

TAU, T = 0.1, 4.0


def definition(student: Tensor, teacher: Tensor) -> Tensor:
    V, K, M, _ = student.shape
    C_l = teacher.shape[-1]
    value = student.new_zeros(())
    w = {(v, k, i): student[v, k, i].div(TAU * T).softmax(-1)[:C_l].sum() for v, k, i in np.ndindex(V, K, M)}
    mean = sum(w.values(), value) / len(w)
    for (v, k, i), weight in w.items():
        p_teacher = (teacher[v, i] / TAU / T).softmax(-1)
        log_p = (student[v, k, i, :C_l] / TAU / T).softmax(-1).log()
        value = value - T**2 * weight / mean * (p_teacher * log_p).sum() / (V * K * M)
    return value


@settings(max_examples=15, deadline=None)
@given(
    V=st.integers(1, 2),
    K=st.integers(1, 2),
    M=st.integers(1, 4),
    C_l=st.integers(1, 3),
    C_u=st.integers(1, 3),
    seed=st.integers(0, 2**16),
)
def test_value_and_gradient_are_the_definition(V: int, K: int, M: int, C_l: int, C_u: int, seed: int) -> None:
    torch.manual_seed(seed)
    student, teacher = torch.rand(V, K, M, C_l + C_u) * 2 - 1, torch.rand(V, M, C_l) * 2 - 1
    leaf, copy = student.clone().requires_grad_(), student.double().requires_grad_()
    loss, expected = relation_distillation(leaf, teacher, TAU, T), definition(copy, teacher.double())
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    (gradient,) = torch.autograd.grad(loss, leaf)
    (wanted,) = torch.autograd.grad(expected, copy)
    torch.testing.assert_close(gradient.double(), wanted, rtol=1e-3, atol=1e-4)


def test_a_sample_that_looks_known_counts_for_more_and_learns_it_through_its_weight() -> None:
    """Only the novel logits differ between the two samples, and only weights see those."""
    student = torch.tensor([[0.5, -0.5, -1.0], [0.5, -0.5, 1.0]]).view(1, 1, 2, 3).requires_grad_()
    for wrong in (0, 1):
        teacher = torch.tensor([[1.0, -1.0], [1.0, -1.0]])
        teacher[wrong] = -teacher[wrong]
        loss = relation_distillation(student, teacher[None], TAU, T)
        (gradient,) = torch.autograd.grad(loss, student)
        # Looking less known pays for the sample that the teacher contradicts.
        assert gradient[0, 0, wrong, 2] < 0 < gradient[0, 0, 1 - wrong, 2]
        if wrong == 0:
            at_the_known = loss.item()
    assert at_the_known > loss.item()
