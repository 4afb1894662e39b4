"""A plug-in for `newfound embed` in a benchmark: lite0 with random weights, which need no package."""

from newfound.core.registry import register_encoder
from newfound.nn.encoders.lite0 import Lite0


@register_encoder("lite0-random")
class RandomLite0(Lite0):
    """EfficientNet-Lite0, untrained."""

    revision = "random"

    def load_pretrained(self) -> None:
        """It keeps its random weights."""
