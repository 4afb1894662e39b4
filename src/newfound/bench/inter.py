"""The inter-class term for one view and head: our closed form, the paper's matrix product, nested loops."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from newfound.bench.baseline.losses import inter_by_matrix_product
from newfound.bench.clock import elapsed, milliseconds
from newfound.bench.machine import Machine
from newfound.bench.memory import peak_bytes
from newfound.core.seed import generator
from newfound.engine.graph import recorded
from newfound.losses.divergence import mean_symmetric_kl

Term = Callable[[Tensor, Tensor], Tensor]
"""Log-probabilities (N, C) and (M, C) → the mean symmetric divergence over all pairs."""


def inter_by_loops(log_p: Tensor, log_q: Tensor) -> Tensor:
    """The definition (Eq. 4): the mean over every pair, one after the other."""
    value = log_p.new_zeros(())
    for a in log_p:
        for b in log_q:
            value = value + ((a.exp() * (a - b)).sum() + (b.exp() * (b - a)).sum()) / 2
    return value / (len(log_p) * len(log_q))


def inter_comparison(machine: Machine) -> list[dict[str, Any]]:
    """Time and peak memory of forward and backward at every size of the scale."""
    scale = machine.scale
    return [_compare(N, C, machine) for N in scale.inter_samples for C in scale.inter_classes]


def _compare(N: int, C: int, machine: Machine) -> dict[str, Any]:
    random = generator(machine.device, N, "inter", C)
    sets = [torch.randn(N, C, device=machine.device, generator=random) for _ in range(2)]
    leaves = [(3 * logits).log_softmax(-1).requires_grad_() for logits in sets]
    row: dict[str, Any] = {"N": N, "M": N, "C": C}
    row["closed_form"] = _measured(mean_symmetric_kl, leaves, machine)
    row["matrix_product"] = _measured(inter_by_matrix_product, leaves, machine)
    if machine.scale.loops_up_to >= N:
        row["loops"] = _measured_once(inter_by_loops, leaves, machine)
    for other in ("matrix_product", "loops"):
        if other in row:
            row[other] |= _times(row[other], row["closed_form"])
    return row


def _measured(term: Term, leaves: list[Tensor], machine: Machine) -> dict[str, float]:
    call = _gradient(term, leaves)
    timing = {"ms": milliseconds(call, machine.device, machine.scale.seconds / 10)}
    if machine.device.type == "cuda":
        timing["graph_ms"] = milliseconds(_captured(call), machine.device, machine.scale.seconds / 10)
    return timing | {"peak_mib": peak_bytes(call, machine.device) / 2**20}


def _measured_once(term: Term, leaves: list[Tensor], machine: Machine) -> dict[str, float]:
    """Without a warm-up or a repetition, for what takes seconds."""
    call, device, seconds = _gradient(term, leaves), machine.device, list[float]()
    peak = peak_bytes(lambda: seconds.append(elapsed(call, device)), device)
    if device.type == "cpu":  # where counting the bytes takes longer than the call
        seconds.append(elapsed(call, device))
    return {"ms": 1000 * seconds[-1], "peak_mib": peak / 2**20}


def _gradient(term: Term, leaves: list[Tensor]) -> Callable[[], object]:
    return lambda: torch.autograd.grad(term(*leaves), leaves)


def _captured(call: Callable[[], object]) -> Callable[[], object]:
    """The call as a CUDA graph, in which launching kernels costs nothing."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        call()
    return recorded(call, side).replay


def _times(other: dict[str, float], ours: dict[str, float]) -> dict[str, float]:
    """How many times as long, and as much memory, as the closed form."""
    names = {"ms": "times_as_long", "graph_ms": "graph_times_as_long", "peak_mib": "times_as_much_memory"}
    return {name: other[key] / ours[key] for key, name in names.items() if key in other}
