"""Wall-clock time, arithmetic and peak memory of a function on a device."""

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.record import Speed
from benchmarks.setup import Scale

REPEATS = 5
"""The number of blocks of calls that are timed; the median counts."""


def synchronise(device: torch.device) -> None:
    """Wait until the device has finished."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def elapsed(function: Callable[[], object], device: torch.device, calls: int = 1) -> float:
    """The total seconds of `calls` calls."""
    synchronise(device)
    start = time.perf_counter()
    for _ in range(calls):
        function()
    synchronise(device)
    return time.perf_counter() - start


def milliseconds(function: Callable[[], object], device: torch.device, seconds: float) -> float:
    """The time of one call: the median over blocks that take `seconds` in total, after a warm-up call."""
    function()
    calls = max(int(seconds / REPEATS / elapsed(function, device)), 1)
    return 1000 * median(elapsed(function, device, calls) / calls for _ in range(REPEATS))


class Laps:
    """Times the parts of a step. Each lap waits for the device, so the parts add up to more than the step."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.times: dict[str, list[float]] = {}
        self._last = 0.0

    def start(self) -> None:
        synchronise(self.device)
        self._last = time.perf_counter()

    def lap(self, part: str) -> None:
        """Count the time since the last lap towards `part`."""
        synchronise(self.device)
        now = time.perf_counter()
        self.times.setdefault(part, []).append(now - self._last)
        self._last = now

    def milliseconds(self) -> dict[str, float]:
        """The median of each part."""
        return {part: 1000 * median(times) for part, times in self.times.items()}


def count_flops(function: Callable[[], object]) -> int:
    """Multiplications and additions in the convolutions and matrix products of a call."""
    with FlopCounterMode(display=False) as counter:
        function()
    return int(counter.get_total_flops())


def tflops(flops: int, ms: float) -> float:
    """10^12 operations per second, from a number of operations and their milliseconds."""
    return flops / ms / 1e9


@dataclass(frozen=True)
class Machine:
    """A device, the precision of a step on it, and the rate of a large matrix product in that precision."""

    device: torch.device
    precision: torch.dtype
    scale: Scale
    product_tflops: float

    def speed(self, ms: float, images: int, flops: int) -> Speed:
        """The rates that follow from the time, the images and the arithmetic of a step."""
        cuda, rate = self.device.type == "cuda", tflops(flops, ms)
        return Speed(
            ms=ms,
            images_per_second=1000 * images / ms,
            tflops=rate,
            share_of_matrix_product=rate / self.product_tflops,
            peak_memory_gib=torch.cuda.max_memory_allocated(self.device) / 2**30 if cuda else None,
        )


def measured_machine(device: torch.device, precision: torch.dtype, scale: Scale) -> Machine:
    """The machine, with the rate of a large square matrix product measured."""
    side = scale.matrix_side
    left, right = (torch.rand(side, side, device=device).to(precision) for _ in range(2))
    ms = milliseconds(lambda: left @ right, device, scale.seconds)
    return Machine(device, precision, scale, tflops(2 * side**3, ms))


def peak_bytes(function: Callable[[], object], device: torch.device) -> int:
    """The peak memory in bytes of the tensors that `function` creates, including its results."""
    if device.type == "cuda":
        synchronise(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        function()
        synchronise(device)
        return torch.cuda.max_memory_allocated(device) - before
    counter = _AllocationCounter()
    with counter:
        function()
    return counter.peak


class _AllocationCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of every storage that an operation creates, until the storage is freed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._alive: set[int] = set()

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        inputs = {_storage(each)._cdata for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)}
        out = operation(*args, **(kwargs or {}))
        for each in tree_leaves(out):
            if isinstance(each, Tensor) and _storage(each)._cdata not in inputs | self._alive:
                self._add(_storage(each))
        return out

    def _add(self, storage: torch.UntypedStorage) -> None:
        self._alive.add(storage._cdata)
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._remove, storage._cdata, storage.nbytes())

    def _remove(self, storage: int, size: int) -> None:
        self._alive.discard(storage)
        self.now -= size


def _storage(tensor: Tensor) -> torch.UntypedStorage:
    return tensor.untyped_storage()
