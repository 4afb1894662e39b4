"""Losses on all pairs of samples, each pair believed to be of one class or of two."""

import torch
from torch import Tensor

EPS = 1e-7


def pairwise_bce(p: Tensor, q: Tensor, same: Tensor) -> Tensor:
    """Probabilities (M, C) of two views and `same` (M, M) → binary cross-entropy, mean over ordered pairs.

    <p_i, q_j> is how likely i and j are of one class; a sample and itself, in the other view, count too.
    """
    alike = p.float() @ q.float().mT
    return -(torch.where(same, alike, 1 - alike) + EPS).log().mean()
