"""What is measured on, and how fast it multiplies matrices."""

from dataclasses import dataclass

import torch

from newfound.bench.flops import matrix_product_tflops
from newfound.bench.scale import Scale


@dataclass(frozen=True)
class Machine:
    """A device, the precision of a step on it, and the rate of a large matrix product in that precision."""

    device: torch.device
    precision: torch.dtype
    scale: Scale
    product_tflops: float


def measured_machine(device: torch.device, precision: torch.dtype, scale: Scale) -> Machine:
    rate = matrix_product_tflops(device, precision, scale.matrix_side, scale.seconds)
    return Machine(device, precision, scale, rate)
