"""The record of one way to run a training step."""

from dataclasses import dataclass

from newfound.bench.flops import tflops
from newfound.bench.machine import Machine
from newfound.experiment.provenance import peak_memory


@dataclass(frozen=True)
class Speed:
    """How fast a step is and what it holds."""

    ms: float
    images_per_second: float
    tflops: float
    share_of_matrix_product: float
    peak_memory_gib: float | None
    """Of the GPU since it was last released; none on a CPU, which only tells that of the process so far."""


def speed(ms: float, images: int, flops: int, machine: Machine) -> Speed:
    """The rates that follow from the time, the images and the arithmetic of a step."""
    rate, device = tflops(flops, ms), machine.device
    peak = peak_memory(device) if device.type == "cuda" else None
    return Speed(ms, 1000 * images / ms, rate, rate / machine.product_tflops, peak)
