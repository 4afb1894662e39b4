"""Encoders of vectors (B, D), between embeddings and heads."""

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from newfound.core.encoder import Encoder
from newfound.core.errors import UsageError
from newfound.core.registry import register_encoder

WIDTH = 512


class VectorEncoder(Encoder):
    """Vectors (B, `size`) → features (B, dim)."""

    of_vectors: ClassVar[bool] = True

    def __init__(self, size: str, dim: int | None = None) -> None:
        super().__init__()
        if not size.isdecimal() or not int(size):
            raise UsageError(f"An encoder of vectors needs their length, as in mlp:1280; got {size!r}.")
        self.size = int(size)
        self.dim = dim or self.size


@register_encoder("identity:", "vectors, as they are")
class Identity(VectorEncoder):
    """Unit vectors, unchanged."""

    def forward(self, vectors: Tensor) -> Tensor:
        return vectors.float()


@register_encoder("mlp:", "vectors")
class MLP(VectorEncoder):
    """One hidden layer with BatchNorm and ReLU."""

    def __init__(self, size: str) -> None:
        super().__init__(size, WIDTH)
        self.layer = nn.Linear(self.size, WIDTH, bias=False)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, vectors: Tensor) -> Tensor:
        return F.relu(self.norm(self.layer(vectors))).float()
