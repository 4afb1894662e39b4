"""The straightforward network and loss compute what IIC computes."""

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from benchmarks.baseline.iic import Network, Weights, iic_loss, inter_by_matrix_product
from benchmarks.inter import inter_by_loops
from benchmarks.terms import Case, random_case
from newfound.core.records import Batch, Clock, Task
from newfound.losses.divergence import mean_symmetric_kl
from newfound.methods.iic import IIC
from newfound.nn.encoders.small import SmallEncoder
from newfound.nn.heads import MultiHead

CONFIG = IIC.Config(heads=2, hidden=6, projection=4, overcluster=3)
TASK = Task(3, 2)
TASKS = [(Task(3, 2), 5, 4), (Task(1, 1), 2, 3), (Task(2, 4), 6, 9)]
IDS = ["usual", "one class each", "more novel"]


def _case(task: Task, N: int, M: int) -> Case:
    torch.manual_seed(N)
    method = IIC(SmallEncoder(), task, IIC.Config(alpha=0.3, beta=0.7, heads=3, hidden=8, projection=4))
    index = torch.cat([torch.arange(N), torch.arange(M)])
    return random_case(method, Batch((), torch.arange(N) % task.num_known, index))


def _stacked(singles: Sequence[Tensor], case: Case) -> list[Tensor]:
    """A list of (B, C) → (V, K, B, C) for each kind of head."""
    K, half = case.method.config.heads, len(singles) // 2
    kinds = [torch.stack(list(kind)) for kind in (singles[:half], singles[half:])]
    return [kind.view(-1, K, *kind.shape[1:]) for kind in kinds]


@pytest.mark.parametrize(("task", "N", "M"), TASKS, ids=IDS)
def test_the_loss_is_that_of_iic(task: Task, N: int, M: int) -> None:
    case = _case(task, N, M)
    torch.testing.assert_close(case.plain_loss(), case.our_loss(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("task", "N", "M"), TASKS, ids=IDS)
def test_the_gradient_is_that_of_iic(task: Task, N: int, M: int) -> None:
    """Summed over the heads for the known cosines, which they share."""
    case, C_l = _case(task, N, M), task.num_known
    for ours, theirs in zip(case.our_gradient(), _stacked(case.plain_gradient(), case), strict=True):
        torch.testing.assert_close(theirs[..., C_l:], ours[..., C_l:], rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(theirs[..., :C_l].sum(1), ours[..., :C_l].sum(1), rtol=1e-3, atol=1e-5)


def test_the_pseudo_labels_are_the_same() -> None:
    case = _case(Task(3, 4), 6, 20)
    for ours, theirs in zip(case.our_sinkhorn(), _stacked(case.plain_sinkhorn(), case), strict=True):
        torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-6)


def test_the_order_of_the_samples_does_not_matter() -> None:
    """Published codes draw from the shuffled union of both sets; a label of -1 marks an unlabelled sample."""
    case = _case(Task(3, 2), 5, 4)
    labels = torch.tensor([0, 1, 2, 0, 1, -1, -1, -1, -1])
    order = torch.tensor([8, 3, 0, 5, 1, 7, 2, 6, 4])
    weights = Weights.of(case.method.config, 3)
    shuffled = [[[head[order] for head in view] for view in kind] for kind in case.single]
    loss = iic_loss(shuffled[0], shuffled[1], labels[order], weights)
    torch.testing.assert_close(loss, case.our_loss(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", [inter_by_matrix_product, inter_by_loops])
@given(N=st.integers(1, 6), M=st.integers(1, 6), C=st.integers(1, 7), seed=st.integers(0, 100))
@settings(max_examples=15, deadline=None)
def test_the_inter_class_term_is_the_same_number(
    way: Callable[[Tensor, Tensor], Tensor], N: int, M: int, C: int, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    sets = [(3 * torch.randn(n, C, generator=random)).log_softmax(-1).requires_grad_() for n in (N, M)]
    ours, theirs = mean_symmetric_kl(*sets), way(*sets)
    torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=2e-6)
    for mine, other in zip(torch.autograd.grad(ours, sets), torch.autograd.grad(theirs, sets), strict=True):
        torch.testing.assert_close(other, mine, rtol=1e-3, atol=1e-5)


def _copy(ours: MultiHead, theirs: torch.nn.ModuleList) -> None:
    """Copy every head's slice of the batched weights; a bias that ours does not have is zero."""
    hidden = CONFIG.hidden
    for k, head in enumerate(theirs):
        rows = slice(k * hidden, (k + 1) * hidden)
        head.load_state_dict(
            {
                "projector.0.weight": ours.hidden_weight[k],
                "projector.0.bias": torch.zeros(hidden),
                "projector.1.weight": ours.norm.weight[rows],
                "projector.1.bias": ours.norm.bias[rows],
                "projector.1.running_mean": torch.zeros(hidden),
                "projector.1.running_var": torch.ones(hidden),
                "projector.1.num_batches_tracked": torch.tensor(0),
                "projector.3.weight": ours.out_weight[k],
                "projector.3.bias": ours.out_bias[k, 0],
                "prototypes.weight": ours.prototypes[k],
            }
        )


def test_the_same_weights_give_the_same_outputs() -> None:
    torch.manual_seed(0)
    ours = IIC(SmallEncoder(), TASK, CONFIG)
    theirs = Network(SmallEncoder(), TASK, 2, 3, 6, 4)
    theirs.encoder.load_state_dict(ours.encoder.state_dict())
    theirs.known.weight.data = ours.h.prototypes.data
    _copy(ours.g, theirs.novel)
    _copy(ours.o, theirs.over)
    for encoder in (ours.encoder, theirs.encoder):
        encoder.eval()  # ours normalises crops of one size together, theirs separately
    crops = torch.randn(4, 5, 3, 8, 8)
    batch = Batch((crops[:2], crops[2:]), torch.tensor([0, 1]), torch.arange(5))
    out = ours(batch, Clock(torch.zeros(())))
    for name, lists in zip(("logits", "over"), theirs(list(crops)), strict=True):
        joined = torch.stack([torch.stack(view) for view in lists])
        torch.testing.assert_close(joined, out[name], rtol=1e-4, atol=1e-5)


def test_prototypes_have_unit_length() -> None:
    network = Network(SmallEncoder(), TASK, 2, 3, 6, 4)
    network.normalise_prototypes()
    over = [weight for name, weight in network.over.named_parameters() if "prototypes" in name]
    assert len(over) == CONFIG.heads
    for weight in (network.known.weight, *over):
        torch.testing.assert_close(weight.norm(dim=1), torch.ones(len(weight)))
