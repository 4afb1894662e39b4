"""A plug-in for calls of `newfound` in benchmarks: encoders with random weights, which need no package."""

import torch
from torch import nn

from newfound.core.encoder import Preprocessing
from newfound.core.registry import register_encoder
from newfound.nn.encoders.lite0 import Lite0
from newfound.nn.encoders.small import SmallEncoder


@register_encoder("lite0-random")
class RandomLite0(Lite0):
    """EfficientNet-Lite0, untrained."""

    revision = "random"

    def load_pretrained(self) -> None:
        redraw(self)


@register_encoder("small-random")
class RandomSmall(SmallEncoder):
    """Our smallest network, untrained, for images of 64 pixels."""

    revision = "random"
    preprocessing = Preprocessing(64, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), shorter=64)

    def load_pretrained(self) -> None:
        redraw(self)


def redraw(network: nn.Module) -> None:
    """Draw new weights, the same in every process, so that one call can resume another."""
    random = torch.Generator().manual_seed(0)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=random)
