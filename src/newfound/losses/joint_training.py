"""What RS and the methods after it share: labels, pairs and agreement, in one step on both sets."""

import torch.nn.functional as F
from torch import Tensor

from newfound.core.records import Losses
from newfound.losses.consistency import view_mse
from newfound.losses.pairwise import pairwise_bce


def joint_training(known: Tensor, novel: Tensor, labels: Tensor, same: Tensor, weight: Tensor) -> Losses:
    """Logits (2, B, C_l or C) and (2, B, C_u) of two views, labels (N,), `same` (M, M) → three terms.

    Labels teach the known head in the first view, pairs the novel head across the views; the views must
    agree, with `weight`, on all samples in both heads.
    """
    N, p = len(labels), novel.softmax(-1)
    disagreement = view_mse(known.softmax(-1)).mean() + view_mse(p).mean()
    return {
        "ce": F.cross_entropy(known[0, :N], labels),
        "bce": pairwise_bce(p[0, N:], p[1, N:], same),
        "consistency": weight * disagreement,
    }
