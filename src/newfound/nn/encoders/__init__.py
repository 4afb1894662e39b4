"""Encoders by name, one file per family. Importing the package registers them."""

from collections.abc import Mapping

import torch
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.registry import ENCODERS
from newfound.nn.encoders import resnet, small  # noqa: F401 (registers the encoders)

__all__ = ["ENCODERS", "build_encoder", "encoder_for", "encoders_with"]


def build_encoder(name: str) -> Encoder:
    """The encoder called `name`, freshly initialised."""
    return ENCODERS.get(name)()


def encoder_for(kind: str, size: int) -> str:
    """The name of the default encoder for a `kind` of data whose images are `size` pixels wide."""
    if kind == "digits" or size <= 16:
        return "small"
    return "resnet18-cifar" if kind == "cifar" else "resnet18"


def encoders_with(weights: Mapping[str, Tensor]) -> list[str]:
    """The names of the encoders with exactly these weights."""
    shapes = {key: value.shape for key, value in weights.items()}
    with torch.device("meta"):
        own = {name: build_encoder(name).state_dict() for name in ENCODERS.names()}
    return [name for name, state in own.items() if {key: v.shape for key, v in state.items()} == shapes]
