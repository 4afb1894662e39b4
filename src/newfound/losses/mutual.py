"""Mutual distillation: two branches must find a sample alike to the same samples."""

import torch
from torch import Tensor

from newfound.losses.divergence import view_symmetric_kl


def mutual_divergence(q: Tensor, k: Tensor, memory: Tensor, tau: float) -> Tensor:
    """Unit features (2, M, D) of two views, memory (2, S, D) → symmetric KL between branches, mean over M.

    Each branch compares a sample, in one view, with itself in the other and with what it remembers; both
    branches remember the same samples in the same places. The memory carries no gradient.
    """
    q, others = q.float(), memory.detach().float()
    itself = (q * k.float()).sum(-1, keepdim=True)
    similar = torch.cat([itself, q @ others.mT], dim=-1)
    return view_symmetric_kl((similar / tau).log_softmax(-1)).mean()
