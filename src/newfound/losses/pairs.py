"""Losses on pairs of samples that do or do not share a class, and the objective of RS built on them."""

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.records import Losses
from newfound.losses.prediction import view_mse

EPS = 1e-7


def pairwise_bce(p: Tensor, q: Tensor, same: Tensor) -> Tensor:
    """Probabilities (M, C) of two views and `same` (M, M) → binary cross-entropy, mean over ordered pairs.

    <p_i, q_j> is the probability that i and j share a class; a sample is also paired with its other view.
    """
    alike = p.float() @ q.float().mT
    return -(torch.where(same, alike, 1 - alike) + EPS).log().mean()


def joint_training(known: Tensor, novel: Tensor, labels: Tensor, same: Tensor, weight: Tensor) -> Losses:
    """The three terms that RS and its successors share, in one step on both sets.

    Logits (2, B, C_l or C) and (2, B, C_u) of two views, labels (N,), `same` (M, M). Labels train the known
    head in the first view, pairs the novel head across views; consistency, with `weight`, covers all samples
    and both heads.
    """
    N, p = len(labels), novel.softmax(-1)
    disagreement = view_mse(known.softmax(-1)).mean() + view_mse(p).mean()
    return {
        "ce": F.cross_entropy(known[0, :N], labels),
        "bce": pairwise_bce(p[0, N:], p[1, N:], same),
        "consistency": weight * disagreement,
    }
