"""The network that was trained on the known classes, kept as it was."""

from collections.abc import Mapping
from copy import deepcopy

from torch import Tensor, nn

from newfound.core.encoder import Encoder


class FrozenClassifier(nn.Module):
    """Images (B, 3, H, W) → logits of the known classes (B, C_l); never trained, always evaluating."""

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
    """The weights of a classifier, and once more under `name`, unless they hold such a copy already."""
    copied = {f"{name}.{key}": value for key, value in weights.items() if key.startswith(("encoder.", "h."))}
    return {**copied, **weights}
