"""The contract of an encoder: images → features. Some also have feature maps; some come pretrained."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor, nn

Channels = tuple[float, float, float]
"""One value for each colour."""
Interpolation = Literal["bilinear", "bicubic"]


@dataclass(frozen=True)
class Preprocessing:
    """How images are prepared for an encoder: resized, centre-cropped, scaled to 0..1 and normalised."""

    size: int
    """Side of the square that the encoder sees."""
    mean: Channels
    std: Channels
    shorter: int | None = None
    """Length of the shorter side before the crop; None: the whole image is squeezed into the square."""
    interpolation: Interpolation = "bicubic"

    def __str__(self) -> str:
        sides = f"{self.size} pixels" if self.shorter is None else f"{self.shorter} to {self.size} pixels"
        mean, std = (" ".join(f"{each:.4g}" for each in values) for values in (self.mean, self.std))
        return f"{sides} {self.interpolation}, mean {mean}, std {std}"


class Encoder(nn.Module):
    """Images (B, 3, H, W) → features (B, dim).

    Define either `forward`, or `trunk` and `last_block`. With the latter two the encoder has feature maps,
    which some methods need, and its features are the means of these maps.
    """

    cache_version: ClassVar[int] = 1
    """Increase it when the same training would give different weights; older cached ones are then ignored."""
    of_vectors: ClassVar[bool] = False
    """Whether it takes vectors (B, D) instead of images."""
    dim: int
    preprocessing: Preprocessing | None = None
    """Of a pretrained encoder; None for one that is trained from scratch and takes images as they are."""
    revision: str = ""
    """Version of the pretrained weights."""
    licence: str = ""
    """Licence of the pretrained weights."""
    frozen: bool = False
    """Whether its weights are fixed."""

    @staticmethod
    def of(module: nn.Module, dim: int, preprocessing: Preprocessing | None = None) -> "Encoder":
        """Wrap a module (B, 3, H, W) → (B, dim); a pretrained one needs its `preprocessing`."""
        return _Wrapped(module, dim, preprocessing)

    @property
    def pretrained(self) -> bool:
        return self.preprocessing is not None

    @property
    def has_maps(self) -> bool:
        return type(self).trunk is not Encoder.trunk

    @classmethod
    def missing(cls, model: str = "") -> str:
        """The command that installs what it needs or downloads `model`; empty if nothing is missing."""
        return ""

    @classmethod
    def preprocessing_for(cls, model: str) -> Preprocessing | None:
        """Its preprocessing, without building it; `model` is what follows a prefix such as `hf:`."""
        return cls.preprocessing

    def load_pretrained(self) -> None:
        """Load its pretrained weights; not needed if they come from a checkpoint."""

    def trunk(self, images: Tensor) -> Tensor:
        """Everything before the last block: (B, 3, H, W) → (B, d, h, w)."""
        raise NotImplementedError(f"{type(self).__name__} has no feature maps")

    @property
    def last_block(self) -> nn.Module:
        """(B, d, h, w) → (B, dim, h', w')."""
        raise NotImplementedError(f"{type(self).__name__} has no feature maps")

    @property
    def last_parameters(self) -> list[nn.Parameter]:
        """The parameters of the last block; empty if the encoder has none."""
        return list(self.last_block.parameters()) if self.has_maps else []

    def freeze_trunk(self) -> None:
        """Train the last block only; BatchNorm statistics of the trunk are still updated."""
        trained = set(self.last_parameters)
        for parameter in self.parameters():
            if parameter not in trained:
                parameter.requires_grad_(False)

    def freeze(self) -> None:
        """Fix all weights and BatchNorm statistics, and disable dropout."""
        self.frozen = True
        self.requires_grad_(False)
        self.eval()

    def fold(self) -> None:
        """Merge layers where that makes inference faster. The encoder must not be trained afterwards."""

    def train(self, mode: bool = True) -> Self:
        return super().train(mode and not self.frozen)

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.last_block(self.trunk(images))
        return pooled(maps)


class _Wrapped(Encoder):
    def __init__(self, module: nn.Module, dim: int, preprocessing: Preprocessing | None) -> None:
        super().__init__()
        self.module, self.dim, self.preprocessing = module, dim, preprocessing

    def forward(self, images: Tensor) -> Tensor:
        return at_least_float32(self.module(images))


def pooled(maps: Tensor) -> Tensor:
    """(B, D, h, w) → means (B, D), at least float32: methods rank features, and bf16 would create ties."""
    return maps.mean(dim=(2, 3), dtype=torch.promote_types(maps.dtype, torch.float32))


def at_least_float32(features: Tensor) -> Tensor:
    return features.to(torch.promote_types(features.dtype, torch.float32))
