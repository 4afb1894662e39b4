"""A plug-in for `newfound embed` in a benchmark: encoders with random weights, which need no package."""

from newfound.core.encoder import Preprocessing
from newfound.core.registry import register_encoder
from newfound.nn.encoders.lite0 import Lite0
from newfound.nn.encoders.small import SmallEncoder


@register_encoder("lite0-random")
class RandomLite0(Lite0):
    """EfficientNet-Lite0, untrained."""

    revision = "random"

    def load_pretrained(self) -> None:
        """It keeps its random weights."""


@register_encoder("small-random")
class RandomSmall(SmallEncoder):
    """Our smallest network, untrained, for images of 64 pixels."""

    revision = "random"
    preprocessing = Preprocessing(64, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), shorter=64)

    def load_pretrained(self) -> None:
        """It keeps its random weights."""
