"""A frozen copy of the classifier of the known classes."""

from collections.abc import Mapping
from copy import deepcopy

from torch import Tensor, nn

from newfound.core.encoder import Encoder


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
