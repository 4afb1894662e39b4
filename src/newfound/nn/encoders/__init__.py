"""Encoders by name, one file per family. Importing the package registers them."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from newfound.core.encoder import Encoder, Preprocessing
from newfound.core.registry import ENCODERS
from newfound.nn.encoders import huggingface, lite0, mlp, resnet, small  # noqa: F401 (registers the encoders)

__all__ = [
    "ENCODERS",
    "PREFERRED",
    "build_encoder",
    "encoder_for",
    "encoders_with",
    "missing",
    "preprocessing_of",
]
PREFERRED = {"hf:facebook/dinov2-small": "88 MB", "lite0": "17 MB"}
"""The recommended encoders for photographs, best first, with the size of their download."""


def build_encoder(name: str, pretrained: bool = True) -> Encoder:
    """The encoder called `name`, with its pretrained weights, if any, or freshly initialised."""
    encoder = _builder(name)()
    if pretrained:
        encoder.load_pretrained()
    return encoder


def preprocessing_of(name: str) -> Preprocessing | None:
    """The preprocessing of an encoder; None if it takes images as they are."""
    if defined := _class_of(name):
        return defined.preprocessing_for(name.partition(":")[2])
    return build_encoder(name, pretrained=False).preprocessing  # built by a function


def missing(name: str) -> str:
    """The command that installs what an encoder needs or downloads it; empty if nothing is missing."""
    defined = _class_of(name)
    return defined.missing(name.partition(":")[2]) if defined else ""


def _class_of(name: str) -> type[Encoder] | None:
    """The class of an encoder; None if a function builds it."""
    build = _builder(name)
    defined = getattr(build, "func", build)
    return defined if isinstance(defined, type) and issubclass(defined, Encoder) else None


def encoder_for(kind: str, size: int) -> str:
    """The default encoder for a `kind` of data: images `size` pixels wide, or vectors of length `size`."""
    if kind == "vectors":
        return f"mlp:{size}"
    if kind == "digits" or size <= 16:
        return "small"
    return "resnet18-cifar" if kind == "cifar" else "resnet18"


def encoders_with(weights: Mapping[str, Tensor]) -> list[str]:
    """The names of the encoders with exactly these weights."""
    shapes = {key: value.shape for key, value in weights.items()}
    names = [name for name in ENCODERS.names() if not name.endswith(":")]
    with torch.device("meta"):
        own = {name: build_encoder(name, pretrained=False).state_dict() for name in names}
    return [name for name, state in own.items() if {key: v.shape for key, v in state.items()} == shapes]


def _builder(name: str) -> Callable[[], Encoder]:
    """The builder registered as `name`, or as `hf:` for `hf:MODEL`."""
    scheme, colon, model = name.partition(":")
    build = ENCODERS.get(scheme + colon)
    return partial(build, model) if colon else build
