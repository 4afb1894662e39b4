"""A small convolutional encoder for digit-sized images, fast on a CPU."""

from torch import Tensor, nn

from newfound.core.encoder import Encoder
from newfound.core.registry import register_encoder


def _block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


@register_encoder("small", "very small images, or a first look on a CPU")
class SmallEncoder(Encoder):
    """Four 3x3 convolutions; the last sees a whole 8x8 image. 0.9 million multiplications per image."""

    dim = 128

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _block(3, 16), _block(16, 32), nn.MaxPool2d(2), _block(32, 64), nn.MaxPool2d(2)
        )
        self.block = _block(64, self.dim)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def trunk(self, images: Tensor) -> Tensor:
        maps: Tensor = self.stem(images)
        return maps

    @property
    def last_block(self) -> nn.Module:
        return self.block
