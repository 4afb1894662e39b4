"""Heads: linear and cosine classifiers, K of these with projectors, a projector, and a frozen classifier.

A method calls `normalise_` after each step to keep prototypes at unit length. `forward` does not normalise
them, so their gradients are those of a linear layer, as in the published implementations.

Deviation: those normalise before each step, so they evaluate with prototypes one step away from unit length.
"""

from collections.abc import Mapping
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.core.encoder import Encoder
from newfound.nn.norm import ViewBatchNorm


class LinearHead(nn.Linear):
    """Features (..., D) → logits (..., C), in float32 under any autocast."""

    def forward(self, features: Tensor) -> Tensor:
        with torch.autocast(features.device.type, enabled=False):
            return super().forward(features.to(self.weight.dtype))


class CosineHead(nn.Module):
    """Features (..., D) → cosines with the prototypes (..., C), in float32 under any autocast."""

    def __init__(self, dim: int, num_classes: int) -> None:
        super().__init__()
        self.prototypes = _uniform(num_classes, dim, fan_in=dim)
        self.normalise_()

    def forward(self, features: Tensor) -> Tensor:
        return _cosines(_unit(features, self.prototypes), self.prototypes)

    def normalise_(self) -> None:
        """Scale every prototype to unit length, in place."""
        _normalise_(self.prototypes)


class MultiHead(nn.Module):
    """K heads at once, each a projector and a cosine classifier: features (V, B, D) → cosines (V, K, B, C).

    A projector is linear, BatchNorm per view, ReLU, linear. Projectors run in the autocast precision; the
    cosines are float32.
    """

    def __init__(self, dim: int, num_classes: int, heads: int, hidden: int, out: int) -> None:
        super().__init__()
        # Deviation: no bias, which BatchNorm would cancel.
        self.hidden_weight = _uniform(heads, hidden, dim, fan_in=dim)
        self.norm = ViewBatchNorm(heads * hidden)
        self.out_weight = _uniform(heads, out, hidden, fan_in=hidden)
        self.out_bias = _uniform(heads, 1, out, fan_in=hidden)
        self.prototypes = _uniform(heads, num_classes, out, fan_in=out)
        self.normalise_()

    def forward(self, features: Tensor) -> Tensor:
        return self.located(features)[0]

    def located(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """(V, B, D) → the cosines (V, K, B, C) and the projected unit vectors (V, K, B, out)."""
        V, B, _ = features.shape
        K, hidden, _ = self.hidden_weight.shape
        by_sample = F.linear(features.transpose(0, 1), self.hidden_weight.flatten(0, 1))
        by_head = F.relu(self.norm(by_sample)).view(B * V, K, hidden).transpose(0, 1)
        projected = torch.baddbmm(self.out_bias, by_head, self.out_weight.mT)
        unit = _unit(projected, self.prototypes)
        # In V groups: a single product would sum the gradient of few prototypes on few cores of a GPU.
        both = _cosines(unit.view(K, V, B, -1), self.prototypes[:, None]), unit
        cosines, unit = (x.view(K, B, V, -1).permute(2, 0, 1, 3) for x in both)
        return cosines, unit

    def normalise_(self) -> None:
        """Scale every prototype of every head to unit length, in place."""
        _normalise_(self.prototypes)


class Projector(nn.Module):
    """Features (..., D) → unit vectors (..., out) for a contrastive loss, in float32: DINO's three layers."""

    def __init__(self, dim: int, hidden: int, out: int) -> None:
        super().__init__()
        sizes = ((dim, hidden), (hidden, hidden), (hidden, out))
        self.layers = nn.ModuleList(nn.Linear(*size) for size in sizes)
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.trunc_normal_(parameter, std=0.02)
            else:
                nn.init.zeros_(parameter)

    def forward(self, features: Tensor) -> Tensor:
        first, second, third = self.layers
        return F.normalize(third(F.gelu(second(F.gelu(first(features))))).float(), dim=-1)


def joint_logits(known: Tensor, novel: Tensor) -> Tensor:
    """(V, B, C_l), (V, K, B, C_u) → (V, K, B, C): all heads share the known logits."""
    shared = known.unsqueeze(1).expand(-1, novel.shape[1], -1, -1)
    return torch.cat([shared, novel], dim=-1)


def _unit(features: Tensor, like: Tensor) -> Tensor:
    """(..., D) → unit length, in float32: Sinkhorn amplifies the rounding errors of bf16."""
    with torch.autocast(features.device.type, enabled=False):
        return F.normalize(features.to(like.dtype), dim=-1)


def _cosines(unit: Tensor, prototypes: Tensor) -> Tensor:
    """(..., n, D), (..., C, D) → (..., n, C)."""
    with torch.autocast(unit.device.type, enabled=False):
        return unit @ prototypes.mT


@torch.no_grad()
def _normalise_(prototypes: Tensor) -> None:
    prototypes.copy_(F.normalize(prototypes, dim=-1))


def _uniform(*shape: int, fan_in: int) -> nn.Parameter:
    """Initialised like `nn.Linear`."""
    return nn.Parameter(torch.empty(shape).uniform_(-(fan_in**-0.5), fan_in**-0.5))


class FrozenClassifier(nn.Module):
    """Images (B, 3, H, W) → known-class logits (B, C_l); never trained, always in evaluation mode."""

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.h = deepcopy(encoder), deepcopy(head)
        self.requires_grad_(False)

    def train(self, mode: bool = True) -> "FrozenClassifier":
        return super().train(False)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.h(self.encoder(images))
        return logits


def with_frozen_copy(weights: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The weights plus a copy of encoder and h under `name`, unless they already contain one."""
    copied = {f"{name}.{key}": value for key, value in weights.items() if key.startswith(("encoder.", "h."))}
    return {**copied, **weights}
