"""One vector of logits over the known and the novel classes."""

import torch
from torch import Tensor


def joint_logits(known: Tensor, novel: Tensor) -> Tensor:
    """(V, B, C_l), (V, K, B, C_u) → (V, K, B, C): every head sees the same known logits."""
    shared = known.unsqueeze(1).expand(-1, novel.shape[1], -1, -1)
    return torch.cat([shared, novel], dim=-1)
