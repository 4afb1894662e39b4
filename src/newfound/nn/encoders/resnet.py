"""ResNets with torchvision's parameter names, for large images and for CIFAR-sized ones."""

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from newfound.core.encoder import Encoder
from newfound.core.registry import register_encoder
from newfound.nn.norm import MapBatchNorm

Stem = Literal["cifar", "imagenet"]
Shortcut = Callable[[int, int, int], nn.Module]
"""(in channels, out channels, stride) → a module that maps a block's input to the shape of its output."""


def projection(inputs: int, outputs: int, stride: int) -> nn.Module:
    """The standard shortcut: a 1x1 convolution and BatchNorm."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), MapBatchNorm(outputs))


class PooledShortcut(nn.Module):
    """A shortcut without parameters: (B, inputs, h, w) → (B, outputs, h / stride, w / stride)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.missing, self.stride = outputs - inputs, stride

    def forward(self, maps: Tensor) -> Tensor:
        # ceil_mode: odd sizes shrink as in a strided convolution.
        pooled = F.avg_pool2d(maps, self.stride, ceil_mode=True)
        return F.pad(pooled, (0, 0, 0, 0, 0, self.missing))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int, shortcut: nn.Module) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = MapBatchNorm(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = MapBatchNorm(width)
        self.downsample = shortcut

    def forward(self, maps: Tensor) -> Tensor:
        out = self.bn1(self.conv1(maps), relu=True)
        last: Tensor = self.bn2(self.conv2(out), relu=True, plus=self.downsample(maps))
        return last


class Bottleneck(nn.Module):
    """1x1, 3x3 (with the stride) and 1x1 convolutions, and a shortcut."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int, shortcut: nn.Module) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = MapBatchNorm(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = MapBatchNorm(width)
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = MapBatchNorm(width * self.expansion)
        self.downsample = shortcut

    def forward(self, maps: Tensor) -> Tensor:
        out = self.bn1(self.conv1(maps), relu=True)
        out = self.bn2(self.conv2(out), relu=True)
        last: Tensor = self.bn3(self.conv3(out), relu=True, plus=self.downsample(maps))
        return last


Block = type[BasicBlock] | type[Bottleneck]


_18 = {"block": BasicBlock, "depths": (2, 2, 2, 2)}
_34 = {"block": BasicBlock, "depths": (3, 4, 6, 3)}
_50 = {"block": Bottleneck, "depths": (3, 4, 6, 3)}
_LARGE = "photographs of 64 pixels or more"
_SMALL = "images of about 32 pixels, such as CIFAR"


@register_encoder("resnet18", _LARGE, **_18, stem="imagenet")
@register_encoder("resnet34", _LARGE, **_34, stem="imagenet")
@register_encoder("resnet50", _LARGE, **_50, stem="imagenet")
@register_encoder("resnet18-cifar", _SMALL, **_18, stem="cifar")
@register_encoder("resnet34-cifar", _SMALL, **_34, stem="cifar")
@register_encoder("resnet50-cifar", _SMALL, **_50, stem="cifar")
@register_encoder("rs-resnet18", "CIFAR as in RS, NCL and DTC", **_18, stem="cifar", shortcut=PooledShortcut)
class ResNet(Encoder):
    """A ResNet without its classifier; its last block is `layer4`.

    Deviation: convolutions are initialised as in UNO for every method; RS, NCL and DTC use PyTorch's default.
    """

    def __init__(
        self, block: Block, depths: tuple[int, int, int, int], stem: Stem, shortcut: Shortcut = projection
    ) -> None:
        super().__init__()
        self.dim = 512 * block.expansion
        large = stem == "imagenet"
        self.conv1 = nn.Conv2d(3, 64, 7 if large else 3, 2 if large else 1, 3 if large else 1, bias=False)
        self.maxpool = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        self.bn1 = MapBatchNorm(64)
        self.layer1 = _layer(block, 64, 64, depths[0], 1, shortcut)
        self.layer2 = _layer(block, 64 * block.expansion, 128, depths[1], 2, shortcut)
        self.layer3 = _layer(block, 128 * block.expansion, 256, depths[2], 2, shortcut)
        self.layer4 = _layer(block, 256 * block.expansion, 512, depths[3], 2, shortcut)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def trunk(self, images: Tensor) -> Tensor:
        maps = self.maxpool(self.bn1(self.conv1(images), relu=True))
        out: Tensor = self.layer3(self.layer2(self.layer1(maps)))
        return out

    @property
    def last_block(self) -> nn.Module:
        return self.layer4


def _layer(
    block: Block, inputs: int, width: int, depth: int, stride: int, shortcut: Shortcut
) -> nn.Sequential:
    outputs = width * block.expansion
    same = stride == 1 and inputs == outputs
    first = block(inputs, width, stride, nn.Identity() if same else shortcut(inputs, outputs, stride))
    return nn.Sequential(first, *(block(outputs, width, 1, nn.Identity()) for _ in range(depth - 1)))
