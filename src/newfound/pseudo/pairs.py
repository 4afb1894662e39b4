"""Which two unlabelled samples are believed to be of one class: (M, ...) → (M, M), no gradient."""

import torch
import torch.nn.functional as F
from torch import Tensor


@torch.no_grad()
def equal_top_k(features: Tensor, k: int) -> Tensor:
    """Whether the k largest features of both are the same ones, in any order (ranking statistics).

    Two sets of k are equal iff they share k elements: one product of 0/1 masks instead of M² comparisons.
    """
    places = features.topk(k, dim=1).indices
    chosen = torch.zeros_like(features, dtype=torch.float32).scatter(1, places, 1.0)
    return chosen @ chosen.mT == k


@torch.no_grad()
def cosine_above(features: Tensor, threshold: float) -> Tensor:
    """Whether the cosine of both is higher than `threshold`."""
    unit = F.normalize(features.float(), dim=1)
    return unit @ unit.mT > threshold


@torch.no_grad()
def wta_agreement(features: Tensor, windows: Tensor) -> Tensor:
    """In how many windows the same feature of both wins (winner-take-all hashing).

    `windows` (H, w) are places of features, each window the first w of a permutation; a product of one-hot
    winners counts the agreements.
    """
    winners = features[:, windows].argmax(2, keepdim=True)
    codes = (winners == torch.arange(windows.shape[1], device=windows.device)).flatten(1).float()
    return codes @ codes.mT


@torch.no_grad()
def best_agreement(agreement: Tensor, labels: Tensor, least: int) -> Tensor:
    """Agreements (n, n) of labelled samples → the threshold, at least `least`, whose pairs have the best F1.

    Of thresholds that are as good the highest counts, as it does where no two samples share a class.
    """
    first, second = torch.triu_indices(len(labels), len(labels), 1, device=labels.device)
    counts = agreement[first, second].long()
    is_pair = labels[first] == labels[second]
    most = int(agreement.max())
    found, right = (_at_least(selected, most) for selected in (counts, counts[is_pair]))
    f1 = 2 * right / (found + is_pair.sum()).clamp(min=1)
    return most - f1[least:].flip(0).argmax()


def _at_least(counts: Tensor, most: int) -> Tensor:
    """How many counts are at least 0, 1, ..., `most`."""
    return counts.bincount(minlength=most + 1).flip(0).cumsum(0).flip(0)
