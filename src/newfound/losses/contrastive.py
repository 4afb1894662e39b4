"""Contrast between the views of a batch, with or without labels."""

import torch
from torch import Tensor

from newfound.core.records import Losses


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
