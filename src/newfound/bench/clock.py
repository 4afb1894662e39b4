"""Wall-clock times of work on a device, which has always ended when the clock is read."""

import time
from collections.abc import Callable
from statistics import median

import torch

REPEATS = 5
"""Blocks of calls that are timed apart, of which the median counts."""


def synchronise(device: torch.device) -> None:
    """Wait for the device; a CPU is never ahead of us."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def elapsed(function: Callable[[], object], device: torch.device, calls: int = 1) -> float:
    """Seconds that `calls` calls take together."""
    synchronise(device)
    start = time.perf_counter()
    for _ in range(calls):
        function()
    synchronise(device)
    return time.perf_counter() - start


def milliseconds(function: Callable[[], object], device: torch.device, seconds: float) -> float:
    """The time of one call: after one to warm up, the median over blocks that take `seconds` in all."""
    function()
    calls = max(int(seconds / REPEATS / elapsed(function, device)), 1)
    return 1000 * median(elapsed(function, device, calls) / calls for _ in range(REPEATS))


class Laps:
    """Times the parts of a step; each lap waits for the device, so the parts add up to more than the step."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.times: dict[str, list[float]] = {}
        self._last = 0.0

    def start(self) -> None:
        synchronise(self.device)
        self._last = time.perf_counter()

    def lap(self, part: str) -> None:
        """What happened since the last lap was `part`."""
        synchronise(self.device)
        now = time.perf_counter()
        self.times.setdefault(part, []).append(now - self._last)
        self._last = now

    def milliseconds(self) -> dict[str, float]:
        """The median of each part."""
        return {part: 1000 * median(times) for part, times in self.times.items()}
