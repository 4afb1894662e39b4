"""Arithmetic: how much a step needs, and how fast the machine multiplies matrices."""

from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

from newfound.bench.clock import milliseconds


def count_flops(function: Callable[[], object]) -> int:
    """Operations of the convolutions and matrix products in a call, multiplications and additions."""
    with FlopCounterMode(display=False) as counter:
        function()
    return int(counter.get_total_flops())


def matrix_product_tflops(device: torch.device, precision: torch.dtype, side: int, seconds: float) -> float:
    """The rate of one large square product."""
    left, right = (torch.rand(side, side, device=device).to(precision) for _ in range(2))
    return tflops(2 * side**3, milliseconds(lambda: left @ right, device, seconds))


def tflops(flops: int, ms: float) -> float:
    """Operations in so many milliseconds → 10^12 operations a second."""
    return flops / ms / 1e9
