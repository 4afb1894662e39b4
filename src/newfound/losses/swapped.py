"""Swapped prediction: what one view is believed to show must be predicted from the others."""

from typing import Literal

import torch
from torch import Tensor


def swapped_cross_entropy(
    logits: Tensor, targets: Tensor, tau: float, axis: Literal["class", "batch"] = "class"
) -> Tensor:
    """Logits (V, K, B, C), targets (L, K, B, C) of the first L views → mean over the ordered pairs (K,).

        1 / (L (V - 1))  sum_v<L  sum_w≠v  mean_i  - <t_v,i, log softmax(l_w,i / tau)>

    `axis="batch"` takes softmax and sum over the batch and the mean over the classes, as UNO v1 did.
    """
    V, L = len(logits), len(targets)
    dim = -1 if axis == "class" else -2
    log_p = (logits.float() / tau).log_softmax(dim)
    every = targets.sum(0, keepdim=True)
    # All targets but a view's own meet the same prediction: one product instead of one for each pair.
    others = torch.cat([every - targets, every.expand(V - L, -1, -1, -1)])
    return -(others * log_p).sum(dim).mean(-1).sum(0) / (L * (V - 1))
