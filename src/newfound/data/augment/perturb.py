"""Views of vectors: one of the stored views, with noise and without some of its features."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Perturb:
    """Vectors (B, V, D) → (B, D) of unit length.

    The first uniform number chooses the view. Each of the others drops its feature, if it is below `dropout`,
    and else becomes a Gaussian by the inverse of its distribution.
    """

    size: int
    strength: float
    """Length of the noise relative to that of the vector, on average."""
    dropout: float

    @property
    def noise(self) -> int:
        return 1 + self.size

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        view = (u[:, 0] * images.shape[1]).long()
        chosen = images[torch.arange(len(images), device=images.device), view]
        length = chosen.norm(dim=-1, keepdim=True) / math.sqrt(self.size)
        kept = u[:, 1:] >= self.dropout
        uniform = ((u[:, 1:] - self.dropout) / (1 - self.dropout)).clamp(1e-6, 1 - 1e-6)
        noisy = chosen + self.strength * length * torch.special.ndtri(uniform)
        return F.normalize(noisy * kept, dim=-1)
