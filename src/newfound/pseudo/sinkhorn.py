"""Sinkhorn-Knopp: soft pseudo-labels that share the samples equally among the classes."""

import torch
from torch import Tensor


@torch.no_grad()
def sinkhorn(logits: Tensor, eps: float, iterations: int = 3) -> Tensor:
    """Logits (..., M, C) → class probabilities (..., M, C); every class gets about M / C of the samples.

    Each matrix is balanced by itself. In logarithms the two scalings are two log-softmaxes, which cannot
    overflow; the constant factors of the textbook form cancel in the last of them.
    """
    log_q = logits.float() / eps
    for _ in range(iterations):
        log_q = log_q.log_softmax(-2)  # each class: a total of 1 over the samples
        log_q = log_q.log_softmax(-1)  # each sample: a total of 1 over the classes
    return log_q.exp()
