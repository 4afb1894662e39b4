"""Losses between predictions of different views, and the ramp for their weight."""

from typing import Literal

import torch
from torch import Tensor

from newfound.core.records import Clock


def swapped_cross_entropy(
    logits: Tensor, targets: Tensor, tau: float, axis: Literal["class", "batch"] = "class"
) -> Tensor:
    """Predict the target of one view from the other views.

    Logits (V, K, B, C), targets (L, K, B, C) of the first L views → mean over the ordered pairs (K,):

        1 / (L (V - 1))  sum_v<L  sum_w≠v  mean_i  - <t_v,i, log softmax(l_w,i / tau)>

    With `axis="batch"`, as in UNO v1, softmax and sum run over the batch and the mean over the classes.
    """
    V, L = len(logits), len(targets)
    dim = -1 if axis == "class" else -2
    log_p = (logits.float() / tau).log_softmax(dim)
    every = targets.sum(0, keepdim=True)
    # Each prediction is multiplied by the sum of the other views' targets: one product, not one per pair.
    others = torch.cat([every - targets, every.expand(V - L, -1, -1, -1)])
    return -(others * log_p).sum(dim).mean(-1).sum(0) / (L * (V - 1))


def view_mse(p: Tensor) -> Tensor:
    """Predictions (V, ..., C) → squared error, mean over classes and unordered pairs of views (...).

    For two views it is `F.mse_loss` per sample; in general the mean over pairs is twice the variance.
    """
    return 2 * p.float().var(0).mean(-1)


def ramp_up(clock: Clock, epochs: int) -> Tensor:
    """Sigmoid ramp exp(-5 (1 - t/T)²) up to epoch T = `epochs`, then 1; a tensor, for captured steps."""
    if not epochs:
        return torch.ones_like(clock.epoch)
    left = 1 - (clock.epoch / epochs).clamp(max=1)
    return (-5 * left**2).exp()
