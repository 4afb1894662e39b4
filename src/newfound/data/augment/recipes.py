"""The augmentations of the papers, declared for each kind of data.

Lengths scale with the side: the papers pad images of 32 pixels by 4, so those of 64 are padded by 8.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.encoder import Channels
from newfound.core.errors import Hint, check_known
from newfound.data.augment.colour import Equalise, Grey, Jitter, Solarise
from newfound.data.augment.geometry import Blur, Centred, Crop, Flip, OneOf, Padded, Resized, Translate
from newfound.data.augment.op import Op

Chain = tuple[Op, ...]

NORMALISATION: Mapping[str, tuple[Channels, Channels]] = {
    "cifar10": ((0.491, 0.482, 0.447), (0.202, 0.199, 0.201)),
    "cifar100": ((0.507, 0.487, 0.441), (0.267, 0.256, 0.276)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "digits": ((0.305, 0.305, 0.305), (0.376, 0.376, 0.376)),
}
"""Mean and standard deviation of each colour in 0..1.

Deviation: the RS family uses a fourth digit for CIFAR10; with one set of values all methods share images.
"""


@dataclass(frozen=True)
class Recipe:
    """The operations on large crops and on small ones; not every recipe has small ones."""

    large: Chain
    small: Chain | None = None


def recipe_named(name: str, kind: str, size: int) -> Recipe:
    """The recipe `name` for images of `kind`, with large crops of side `size`."""
    recipes = _KINDS[kind](size)
    check_known("augmentation recipe", name, recipes, Hint.SETTINGS)
    return recipes[name]


def _cifar(size: int) -> dict[str, Recipe]:
    shift, small = round(size / 8), round(size * 18 / 32)
    weak: Chain = (Crop(size, Padded(shift)), Flip())
    return {
        "none": Recipe((Crop(size, Centred()),)),
        # RS and NCL, stage with labels
        "weak": Recipe(weak),
        # RS and NCL on CIFAR100, joint stage
        "twice": Recipe(weak),
        # DTC; RS and NCL on CIFAR10, joint stage
        "twice-reflect": Recipe((Translate(shift), Flip())),
        # UNO v1, ComEx
        "v1": Recipe(
            (
                Crop(size, OneOf(Padded(shift), Resized(0.8, 1.0))),
                Flip(),
                Jitter(0.3, 0.3, 0.15, 0.1, p=0.5),
                Grey(0.1),
            )
        ),
        # UNO v2, IIC, rKD
        "v2": Recipe(
            large=(
                Crop(size, OneOf(Padded(shift), Resized(0.5, 1.0))),
                Flip(),
                Jitter(0.4, 0.4, 0.2, 0.1, p=0.6),
                Solarise(0.1),
                Equalise(0.1),
            ),
            small=(
                Crop(small, Resized(0.3, 0.8)),
                Flip(),
                Jitter(0.4, 0.4, 0.2, 0.1, p=0.8),
                Solarise(0.2),
                Equalise(0.2),
            ),
        ),
    }


def _imagenet(size: int) -> dict[str, Recipe]:
    shift, small = round(size * 4 / 224), round(size * 96 / 224)
    weak: Chain = (Crop(size, Resized(0.5, 1.0)), Flip())
    return {
        # DTC, except for its variant pi
        "none": Recipe((Crop(size, Centred()),)),
        "weak": Recipe(weak),
        "twice": Recipe(weak),
        # DTC
        "twice-reflect": Recipe((Crop(size, Padded(0)), Translate(shift), Flip())),
        "v1": Recipe((*weak, Jitter(0.3, 0.3, 0.15, 0.1, p=0.5), Grey(0.1), Blur(0.2))),
        "v2": Recipe(
            large=(*weak, Jitter(0.4, 0.4, 0.2, 0.1, p=0.5), Grey(0.2), Blur(0.2)),
            small=(
                Crop(small, Resized(0.08, 0.5)),
                Flip(),
                Jitter(0.4, 0.4, 0.2, 0.1, p=0.8),
                Grey(0.2),
                Blur(0.5),
            ),
        ),
    }


def _digits(size: int) -> dict[str, Recipe]:
    """Ours: position, size and ink vary; a mirrored digit is another symbol, and a scan has no colour."""
    shift, small = max(1, round(size / 8)), round(size * 3 / 4)
    weak: Chain = (Crop(size, Padded(shift)),)
    ink = Jitter(0.3, 0.3, 0.0, 0.0, p=0.5)
    return {
        "none": Recipe((Crop(size, Centred()),)),
        "weak": Recipe(weak),
        "twice": Recipe(weak),
        "twice-reflect": Recipe((Translate(shift),)),
        "v1": Recipe((Crop(size, OneOf(Padded(shift), Resized(0.7, 1.0))), ink)),
        "v2": Recipe(
            # Padding lets a box reach beyond the image, so that digits shrink as well as grow.
            large=(Crop(size + 2 * shift, Padded(shift)), Crop(size, Resized(0.5, 1.0)), ink),
            small=(Crop(small, Resized(0.5, 0.9)), ink),
        ),
    }


def _vectors(size: int) -> dict[str, Recipe]:
    """Ours: noise and missing features; small crops are further views."""
    weak: Chain = (Perturb(size, 0.3, 0.1),)
    strong: Chain = (Perturb(size, 0.6, 0.2),)
    return {
        "none": Recipe((Perturb(size, 0.0, 0.0),)),
        **dict.fromkeys(("weak", "twice", "twice-reflect"), Recipe(weak)),
        "v1": Recipe(strong),
        "v2": Recipe(strong, strong),
    }


_KINDS: Mapping[str, Callable[[int], dict[str, Recipe]]] = {
    "cifar": _cifar,
    "imagenet": _imagenet,
    "digits": _digits,
    "vectors": _vectors,
}


@dataclass(frozen=True)
class Perturb:
    """Vectors (B, V, D) → (B, D) of unit length.

    The first uniform number chooses the view. Each of the others drops its feature if it is below `dropout`;
    otherwise the inverse of the normal distribution turns it into Gaussian noise.
    """

    size: int
    strength: float
    """Length of the noise relative to that of the vector, on average."""
    dropout: float

    @property
    def noise(self) -> int:
        return 1 + self.size

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        view = (u[:, 0] * images.shape[1]).long()
        chosen = images[torch.arange(len(images), device=images.device), view]
        length = chosen.norm(dim=-1, keepdim=True) / math.sqrt(self.size)
        kept = u[:, 1:] >= self.dropout
        uniform = ((u[:, 1:] - self.dropout) / (1 - self.dropout)).clamp(1e-6, 1 - 1e-6)
        noisy = chosen + self.strength * length * torch.special.ndtri(uniform)
        return F.normalize(noisy * kept, dim=-1)
