"""Losses on all pairs of samples, each pair believed to be of one class or of two."""

import torch
import torch.nn.functional as F
from torch import Tensor

EPS = 1e-7


def pairwise_bce(p: Tensor, q: Tensor, same: Tensor) -> Tensor:
    """Probabilities (M, C) of two views and `same` (M, M) → binary cross-entropy, mean over ordered pairs.

    <p_i, q_j> is how likely i and j are of one class; a sample and itself, in the other view, count too.
    """
    alike = p.float() @ q.float().mT
    return -(torch.where(same, alike, 1 - alike) + EPS).log().mean()


def pairwise_kl_hinge(p: Tensor, same: Tensor, margin: float) -> Tensor:
    """Probabilities (M, C) and `same` (M, M) → mean over ordered pairs of KL or of its hinge (KCL).

        KL(p_j || p_i) where i and j are the same, else max(0, margin - KL(p_j || p_i)); p_j has no gradient

    All divergences at once: KL(p_j || p_i) = <p_j, log p_j> - <p_j, log p_i>, of which the last is a product.
    """
    p = p.float() + EPS
    target = p.detach()
    apart = (target * target.log()).sum(-1) - p.log() @ target.mT
    return torch.where(same, apart, F.relu(margin - apart)).mean()
