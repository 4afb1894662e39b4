"""What a compiled step must not compute twice."""

import torch
from torch import Tensor


def kept(x: Tensor) -> Tensor:
    """x as a tensor of its own, in memory.

    The compiler would rather compute it again in every kernel that reads it; and in the backward pass, even
    if it comes from a buffer that has changed since.
    """
    if not torch.compiler.is_compiling():
        return x.clone()
    from torch._inductor import test_operators  # slow to import

    alone: Tensor = test_operators.realize(x)
    return alone
