"""Which two unlabelled samples are believed to be of one class: (M, ...) → bool (M, M), no gradient."""

import torch
from torch import Tensor


@torch.no_grad()
def equal_top_k(features: Tensor, k: int) -> Tensor:
    """Whether the k largest features of both are the same ones, in any order (ranking statistics).

    Two sets of k are equal iff they share k elements: one product of 0/1 masks instead of M² comparisons.
    """
    places = features.topk(k, dim=1).indices
    chosen = torch.zeros_like(features, dtype=torch.float32).scatter(1, places, 1.0)
    return chosen @ chosen.mT == k
