"""The encoders by name, and the one that suits a kind of images."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.errors import unknown
from newfound.nn.resnet import BasicBlock, Bottleneck, PooledShortcut, ResNet
from newfound.nn.small import SmallEncoder

ENCODERS: dict[str, Callable[[], Encoder]] = {
    "resnet18": lambda: ResNet(BasicBlock, (2, 2, 2, 2), "imagenet"),
    "resnet34": lambda: ResNet(BasicBlock, (3, 4, 6, 3), "imagenet"),
    "resnet50": lambda: ResNet(Bottleneck, (3, 4, 6, 3), "imagenet"),
    "resnet18-cifar": lambda: ResNet(BasicBlock, (2, 2, 2, 2), "cifar"),
    "resnet34-cifar": lambda: ResNet(BasicBlock, (3, 4, 6, 3), "cifar"),
    "resnet50-cifar": lambda: ResNet(Bottleneck, (3, 4, 6, 3), "cifar"),
    "rs-resnet18": lambda: ResNet(BasicBlock, (2, 2, 2, 2), "cifar", PooledShortcut),
    "small": SmallEncoder,
}


def build_encoder(name: str) -> Encoder:
    """The encoder called `name`, freshly initialised."""
    if name not in ENCODERS:
        raise unknown("encoder", name, ENCODERS, f"the encoders are {', '.join(ENCODERS)}")
    return ENCODERS[name]()


def encoder_for(kind: str, size: int) -> str:
    """The name of the default encoder for images of a `kind` of data with sides of `size` pixels."""
    if kind == "digits" or size <= 16:
        return "small"
    return "resnet18-cifar" if kind == "cifar" else "resnet18"


def encoders_with(weights: Mapping[str, Tensor]) -> list[str]:
    """The names of the encoders that have just these weights."""
    shapes = {key: value.shape for key, value in weights.items()}
    with torch.device("meta"):
        own = {name: build().state_dict() for name, build in ENCODERS.items()}
    return [name for name, state in own.items() if {key: v.shape for key, v in state.items()} == shapes]
