"""The inter-class term of one view and head: our closed form, the paper's matrix product, nested loops."""

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.baseline.iic import inter_by_matrix_product
from benchmarks.measure import Machine, elapsed, milliseconds, peak_bytes
from benchmarks.record import Cost, InterRow
from newfound.core.seed import generator
from newfound.engine.step import recorded
from newfound.losses.divergence import mean_symmetric_kl

Term = Callable[[Tensor, Tensor], Tensor]
"""Log-probabilities (N, C) and (M, C) → the mean symmetric divergence over all pairs."""


def inter_by_loops(log_p: Tensor, log_q: Tensor) -> Tensor:
    """The definition (Eq. 4): the mean over all pairs, one at a time."""
    value = log_p.new_zeros(())
    for a in log_p:
        for b in log_q:
            value = value + ((a.exp() * (a - b)).sum() + (b.exp() * (b - a)).sum()) / 2
    return value / (len(log_p) * len(log_q))


def inter_rows(machine: Machine) -> list[InterRow]:
    """Time and peak memory of the forward and backward pass at every size of the scale."""
    scale = machine.scale
    return [_row(N, C, machine) for N in scale.inter_samples for C in scale.inter_classes]


def _row(N: int, C: int, machine: Machine) -> InterRow:
    random = generator(machine.device, N, "inter", C)
    sets = [torch.randn(N, C, device=machine.device, generator=random) for _ in range(2)]
    leaves = [(3 * logits).log_softmax(-1).requires_grad_() for logits in sets]
    ours = _cost(mean_symmetric_kl, leaves, machine)
    product = _with_ratios(_cost(inter_by_matrix_product, leaves, machine), ours)
    row = InterRow(N=N, M=N, C=C, closed_form=ours, matrix_product=product)
    if machine.scale.loops_up_to < N:
        return row
    loops = _with_ratios(_cost_of_one_call(inter_by_loops, leaves, machine), ours)
    return row.model_copy(update={"loops": loops})


def _cost(term: Term, leaves: list[Tensor], machine: Machine) -> Cost:
    call, device, seconds = _gradient(term, leaves), machine.device, machine.scale.seconds / 10
    ms = milliseconds(call, device, seconds)
    if device.type != "cuda":
        return Cost(ms=ms, peak_mib=peak_bytes(call, device) / 2**20)
    graph_ms = milliseconds(_captured(call), device, seconds)
    return Cost(ms=ms, graph_ms=graph_ms, peak_mib=peak_bytes(call, device) / 2**20)


def _cost_of_one_call(term: Term, leaves: list[Tensor], machine: Machine) -> Cost:
    """The cost of one call without warm-up or repetition, for a term that takes seconds."""
    call, device, seconds = _gradient(term, leaves), machine.device, list[float]()
    peak = peak_bytes(lambda: seconds.append(elapsed(call, device)), device)
    if device.type == "cpu":  # counting the bytes there takes longer than the call itself
        seconds.append(elapsed(call, device))
    return Cost(ms=1000 * seconds[-1], peak_mib=peak / 2**20)


def _with_ratios(other: Cost, ours: Cost) -> Cost:
    """The cost of another form with its ratios to ours, the closed form."""
    ratios = {
        "times_as_long": other.ms / ours.ms,
        "times_as_much_memory": other.peak_mib / ours.peak_mib,
    }
    if other.graph_ms and ours.graph_ms:
        ratios["graph_times_as_long"] = other.graph_ms / ours.graph_ms
    return other.model_copy(update=ratios)


def _gradient(term: Term, leaves: list[Tensor]) -> Callable[[], object]:
    return lambda: torch.autograd.grad(term(*leaves), leaves)


def _captured(call: Callable[[], object]) -> Callable[[], object]:
    """The call as a CUDA graph, which has no kernel launch overhead."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        call()
    return recorded(call, side).replay
