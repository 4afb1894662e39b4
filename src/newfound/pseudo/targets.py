"""Targets over known and novel classes together."""

import torch
import torch.nn.functional as F
from torch import Tensor


@torch.no_grad()
def joint_targets(labels: Tensor, q: Tensor, num_known: int) -> Tensor:
    """Labels (N,) and pseudo-labels (L, K, M, C_u) → targets (L, K, N + M, C_l + C_u), zero elsewhere."""
    L, K, _, C_u = q.shape
    classes = torch.arange(num_known + C_u, device=labels.device)
    known = (labels.unsqueeze(-1) == classes).to(q.dtype)
    return torch.cat([known.expand(L, K, -1, -1), F.pad(q, (num_known, 0))], dim=2)
