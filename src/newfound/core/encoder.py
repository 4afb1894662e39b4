"""The contract of an encoder: a trunk, then a last block that a method may copy or train alone."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class Encoder(nn.Module, ABC):
    """Images (B, 3, H, W) → features (B, dim)."""

    dim: int

    @abstractmethod
    def trunk(self, images: Tensor) -> Tensor:
        """Everything before the last block: (B, 3, H, W) → (B, d, h, w)."""

    @property
    @abstractmethod
    def last_block(self) -> nn.Module:
        """(B, d, h, w) → (B, dim, h', w')."""

    def freeze_trunk(self) -> None:
        """Leave the last block alone to be trained; BatchNorm statistics of the trunk still move."""
        trained = set(self.last_block.parameters())
        for parameter in self.parameters():
            if parameter not in trained:
                parameter.requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.last_block(self.trunk(images))
        return pooled(maps)


def pooled(maps: Tensor) -> Tensor:
    """(B, D, h, w) → (B, D) means; at least float32: features are ranked, and bf16 would make ties."""
    return maps.mean(dim=(2, 3), dtype=torch.promote_types(maps.dtype, torch.float32))
