"""The loss of supervised training on several views."""

import torch.nn.functional as F
from torch import Tensor


def view_cross_entropy(logits: Tensor, labels: Tensor, tau: float) -> Tensor:
    """Logits (V, B, C), labels (B,) → cross-entropy, mean over views and batch."""
    return F.cross_entropy((logits.float() / tau).flatten(0, 1), labels.repeat(len(logits)))
