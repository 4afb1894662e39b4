"""The contract of an encoder: a trunk and a last block that a method may copy or train alone."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn


class Encoder(nn.Module, ABC):
    """Images (B, 3, H, W) → features (B, dim)."""

    cache_version: ClassVar[int] = 1
    """Increase it when the same training gives other weights: caches of other versions are ignored."""
    dim: int

    @abstractmethod
    def trunk(self, images: Tensor) -> Tensor:
        """Everything before the last block: (B, 3, H, W) → (B, d, h, w)."""

    @property
    @abstractmethod
    def last_block(self) -> nn.Module:
        """(B, d, h, w) → (B, dim, h', w')."""

    def freeze_trunk(self) -> None:
        """Train the last block only; BatchNorm statistics of the trunk are still updated."""
        trained = set(self.last_block.parameters())
        for parameter in self.parameters():
            if parameter not in trained:
                parameter.requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.last_block(self.trunk(images))
        return pooled(maps)


def pooled(maps: Tensor) -> Tensor:
    """(B, D, h, w) → means (B, D), at least float32: methods rank features, and bf16 would create ties."""
    return maps.mean(dim=(2, 3), dtype=torch.promote_types(maps.dtype, torch.float32))
