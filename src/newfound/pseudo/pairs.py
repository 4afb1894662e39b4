"""Pairs of unlabelled samples that are taken to be of the same class."""

import torch
from torch import Tensor


@torch.no_grad()
def equal_top_k(features: Tensor, k: int) -> Tensor:
    """Ranking statistics: (M, D) → (M, M), whether both samples have the same set of k largest features.

    Two sets of size k are equal iff they share k elements: a product of 0/1 masks replaces M² comparisons.
    """
    places = features.topk(k, dim=1).indices
    chosen = torch.zeros_like(features, dtype=torch.float32).scatter(1, places, 1.0)
    return chosen @ chosen.mT == k
