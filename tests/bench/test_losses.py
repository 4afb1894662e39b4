"""The straightforward loss computes what IIC's does, and each way of its inter-class term the same number."""

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from newfound.bench.baseline.losses import iic_loss, inter_by_matrix_product
from newfound.bench.baseline.training import loss_weights
from newfound.bench.inter import inter_by_loops
from newfound.bench.terms import Case, random_case
from newfound.core.records import Batch, Task
from newfound.losses.divergence import mean_symmetric_kl
from newfound.methods.iic import IIC
from newfound.nn.small import SmallEncoder

TASKS = [(Task(3, 2), 5, 4), (Task(1, 1), 2, 3), (Task(2, 4), 6, 9)]
IDS = ["usual", "one class each", "more novel"]


def _case(task: Task, N: int, M: int) -> Case:
    torch.manual_seed(N)
    method = IIC(SmallEncoder(), task, IIC.Config(alpha=0.3, beta=0.7, heads=3, hidden=8, projection=4))
    index = torch.cat([torch.arange(N), torch.arange(M)])
    return random_case(method, Batch((), torch.arange(N) % task.num_known, index))


def _stacked(singles: Sequence[Tensor], case: Case) -> list[Tensor]:
    """One (B, C) after the other → (V, K, B, C) for each kind of heads."""
    K, half = case.method.config.heads, len(singles) // 2
    kinds = [torch.stack(list(kind)) for kind in (singles[:half], singles[half:])]
    return [kind.view(-1, K, *kind.shape[1:]) for kind in kinds]


@pytest.mark.parametrize(("task", "N", "M"), TASKS, ids=IDS)
def test_the_loss_is_that_of_iic(task: Task, N: int, M: int) -> None:
    case = _case(task, N, M)
    torch.testing.assert_close(case.plain_loss(), case.our_loss(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("task", "N", "M"), TASKS, ids=IDS)
def test_so_is_its_gradient(task: Task, N: int, M: int) -> None:
    """Of the known cosines, which the heads share, the sum over the heads."""
    case, C_l = _case(task, N, M), task.num_known
    for ours, theirs in zip(case.our_gradient(), _stacked(case.plain_gradient(), case), strict=True):
        torch.testing.assert_close(theirs[..., C_l:], ours[..., C_l:], rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(theirs[..., :C_l].sum(1), ours[..., :C_l].sum(1), rtol=1e-3, atol=1e-5)


def test_the_pseudo_labels_are_the_same() -> None:
    case = _case(Task(3, 4), 6, 20)
    for ours, theirs in zip(case.our_sinkhorn(), _stacked(case.plain_sinkhorn(), case), strict=True):
        torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-6)


def test_the_order_of_the_samples_does_not_matter() -> None:
    """Published codes draw from the shuffled union of both sets; labels of -1 mark the unlabelled."""
    case = _case(Task(3, 2), 5, 4)
    labels = torch.tensor([0, 1, 2, 0, 1, -1, -1, -1, -1])
    order = torch.tensor([8, 3, 0, 5, 1, 7, 2, 6, 4])
    weights = loss_weights(case.method.config, 3)
    shuffled = [[[head[order] for head in view] for view in kind] for kind in case.single]
    loss = iic_loss(shuffled[0], shuffled[1], labels[order], weights)
    torch.testing.assert_close(loss, case.our_loss(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", [inter_by_matrix_product, inter_by_loops])
@given(N=st.integers(1, 6), M=st.integers(1, 6), C=st.integers(1, 7), seed=st.integers(0, 100))
@settings(max_examples=15, deadline=None)
def test_the_inter_class_term_every_way(
    way: Callable[[Tensor, Tensor], Tensor], N: int, M: int, C: int, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    sets = [(3 * torch.randn(n, C, generator=random)).log_softmax(-1).requires_grad_() for n in (N, M)]
    ours, theirs = mean_symmetric_kl(*sets), way(*sets)
    torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=2e-6)
    for mine, other in zip(torch.autograd.grad(ours, sets), torch.autograd.grad(theirs, sets), strict=True):
        torch.testing.assert_close(other, mine, rtol=1e-3, atol=1e-5)
