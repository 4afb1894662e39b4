"""What the neighbours of a sample were believed to be, and how to be surer of it."""

import torch
from torch import Tensor


@torch.no_grad()
def neighbour_targets(features: Tensor, remembered: Tensor, targets: Tensor, tau: float) -> Tensor:
    """Unit features (..., M, D), those of a memory (..., S, D) and its targets (..., S, C) → (..., M, C).

    The mean of all remembered targets, each weighted by the softmax of its cosine / tau; in float32 under
    any autocast.
    """
    with torch.autocast(features.device.type, enabled=False):
        near = (features.float() @ remembered.float().mT / tau).softmax(-1)
        return near @ targets.float()


@torch.no_grad()
def sharpened(p: Tensor, temperature: float) -> Tensor:
    """Probabilities (..., C) → p^(1 / temperature), normalised (..., C): below 1 the largest grow."""
    return (p.float().log() / temperature).softmax(-1)
