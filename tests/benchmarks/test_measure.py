"""Arithmetic and memory of functions whose counts are known; times are not tested."""

from collections.abc import Callable
from math import isnan, nan

import pytest
import torch
from torch import Tensor, nn

from benchmarks.measure import (
    Laps,
    count_flops,
    elapsed,
    measured_machine,
    milliseconds,
    peak_bytes,
    tflops,
)
from benchmarks.setup import SMALL
from benchmarks.step import largest_difference

CPU = torch.device("cpu")
MIB = 2**20


def test_flops_of_a_linear_layer() -> None:
    """Forward 2 B I O; backward as much for the weights and again for the inputs, if they need gradients."""
    layer, rows = nn.Linear(5, 7, bias=False), torch.randn(3, 5)
    product = 2 * 3 * 5 * 7
    assert count_flops(lambda: layer(rows)) == product
    assert count_flops(lambda: layer(rows).sum().backward()) == 2 * product
    rows.requires_grad_()
    assert count_flops(lambda: layer(rows).sum().backward()) == 3 * product


def test_flops_of_a_convolution() -> None:
    """2 B H W I O k² forward."""
    layer, images = nn.Conv2d(3, 4, 3, padding=1), torch.randn(2, 3, 8, 8)
    product = 2 * 2 * 8 * 8 * 3 * 4 * 9
    assert count_flops(lambda: layer(images)) == product
    assert count_flops(lambda: layer(images).sum().backward()) == 2 * product


def test_rates() -> None:
    assert tflops(2 * 10**12, 1000.0) == 2
    assert tflops(10**9, 1.0) == 1


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_the_matrix_product_has_the_precision_of_the_step(
    precision: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    multiplied = []

    def timed(product: Callable[[], Tensor], *_: object) -> float:
        multiplied.append(product().dtype)
        return 1.0

    monkeypatch.setattr("benchmarks.measure.milliseconds", timed)
    assert measured_machine(CPU, precision, SMALL).precision == precision
    assert multiplied == [precision]


def test_peak_memory_of_a_chain() -> None:
    """x + 1 and its square are alive at once, then the sum alone."""
    x = torch.zeros(MIB // 4)
    assert peak_bytes(lambda: x + 1, CPU) == MIB
    assert peak_bytes(lambda: (x + 1).square().sum(), CPU) == 2 * MIB
    assert peak_bytes(lambda: ((x + 1).square() + 1).sum(), CPU) == 2 * MIB


def test_peak_memory_leaves_out_views_and_what_was_there() -> None:
    x = torch.zeros(MIB // 4)
    assert peak_bytes(lambda: x.view(2, -1).T[0], CPU) == 0
    assert peak_bytes(lambda: x.add_(1), CPU) == 0
    assert peak_bytes(lambda: (x + 1).view(2, -1).add_(1), CPU) == MIB


def test_peak_memory_of_a_gradient() -> None:
    x = torch.zeros(MIB // 4, requires_grad=True)
    peak = peak_bytes(lambda: torch.autograd.grad(x.exp().sum(), x), CPU)
    assert 2 * MIB <= peak <= 3 * MIB + 64


def test_clocks_count_every_call() -> None:
    calls: list[int] = []
    assert elapsed(lambda: calls.append(0), CPU, calls=3) > 0
    assert len(calls) == 3
    assert milliseconds(lambda: calls.append(0), CPU, seconds=0) > 0
    assert len(calls) == 3 + 2 + 5


def test_laps_name_their_parts() -> None:
    laps = Laps(CPU)
    for _ in range(3):
        laps.start()
        laps.lap("one")
        laps.lap("two")
    assert list(laps.milliseconds()) == ["one", "two"]
    assert [len(times) for times in laps.times.values()] == [3, 3]


def test_the_largest_difference_is_relative_to_the_first_mode() -> None:
    assert largest_difference([[2.0, 4.0]]) == 0
    assert largest_difference([[2.0, 4.0], [2.1, 4.0], [2.0, 3.6]]) == pytest.approx(0.1)
    assert isnan(largest_difference([[2.0, 4.0], [2.0, nan]]))
