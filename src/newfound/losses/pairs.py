"""Pairs of samples or views that share a class: losses on them, RS's objective, and RS's pseudo-labels."""

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


def contrast(unit: Tensor, labels: Tensor, tau: float) -> Tensor:
    """Unit vectors (V, B, D) and classes (B,) → the mean over all V B views i of

        - 1 / |P(i)|  sum_p∈P(i)  log [ exp(<z_i, z_p> / tau) / sum_a≠i exp(<z_i, z_a> / tau) ]

    P(i) are the other views of i's class (Khosla et al., 2020). With two views and every sample in its own
    class this is InfoNCE, in which the positive competes with the 2B - 2 other views (SimCLR).
    """
    views = unit.float().flatten(0, 1)
    itself = torch.eye(len(views), dtype=torch.bool, device=views.device)
    log_p = (views @ views.mT / tau).masked_fill(itself, -torch.inf).log_softmax(-1)
    classes = labels.repeat(len(unit))
    positive = (classes[:, None] == classes) & ~itself
    return -(torch.where(positive, log_p, 0.0).sum(-1) / positive.sum(-1)).mean()


def contrast_terms(unit: Tensor, labels: Tensor, weight: float, tau: float, known_tau: float) -> Losses:
    """GCD's loss of unit vectors (2, B, D), the first N samples of which have labels (N,).

    (1 - weight) times InfoNCE over all samples + weight times the contrast of classes over the labelled ones.
    """
    samples = torch.arange(unit.shape[1], device=unit.device)
    return {
        "contrast": (1 - weight) * contrast(unit, samples, tau),
        "known_contrast": weight * contrast(unit[:, : len(labels)], labels, known_tau),
    }


@torch.no_grad()
def equal_top_k(features: Tensor, k: int) -> Tensor:
    """Ranking statistics: (M, D) → (M, M), whether both samples have the same set of k largest features.

    Two sets of size k are equal iff they share k elements: a product of 0/1 masks replaces M² comparisons.
    """
    places = features.topk(k, dim=1).indices
    chosen = torch.zeros_like(features, dtype=torch.float32).scatter(1, places, 1.0)
    return chosen @ chosen.mT == k
