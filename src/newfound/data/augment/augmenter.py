"""Stored images → encoder input: augmented views in training, one plain view in evaluation.

Vectors (B, V, D) with V stored views can replace images (B, 3, H, W); every augmented view is then (B, D).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.encoder import Channels
from newfound.core.errors import UsageError
from newfound.data.augment.geometry import resample
from newfound.data.augment.op import apply, noise_of
from newfound.data.augment.recipes import recipe_named


class Augmenter:
    """Stored images (B, 3, H, W) and uniform numbers (V, B, noise) → normalised views.

    The caller draws the numbers with one `torch.rand`. The call is pure, has static shapes and never waits
    for the device, so it can be compiled and captured in a CUDA graph.
    """

    def __init__(
        self, recipe: str, kind: str, size: int, large: int, small: int, mean: Channels, std: Channels
    ) -> None:
        declared = recipe_named(recipe, kind, size)
        if small and declared.small is None:
            raise UsageError(
                f"The augmentation recipe {recipe!r} has no small crops, got {small}; v2 has them."
            )
        self._groups = [
            (count, ops) for count, ops in ((large, declared.large), (small, declared.small)) if count and ops
        ]
        self._mean, self._std = mean, std
        self.noise = max(noise_of(ops) for _, ops in self._groups)
        """How many uniform numbers in [0, 1) each view of each sample needs."""

    def __call__(self, images: Tensor, noise: Tensor) -> tuple[Tensor, ...]:
        """uint8 (B, 3, H, W), float32 (V, B, noise) → one float32 (V_s, B, 3, h, w) per size, large first."""
        views, start = [], 0
        for count, ops in self._groups:
            # All views of one size form one batch of count × B images.
            u = noise[start : start + count].flatten(0, 1)
            levels = apply(ops, images.float().repeat(count, *[1] * (images.ndim - 1)), u)
            views.append(normalise(levels, self._mean, self._std).view(count, -1, *levels.shape[1:]))
            start += count
        return tuple(views)


def normalise(levels: Tensor, mean: Channels, std: Channels) -> Tensor:
    """Grey levels in 0..255 → (level / 255 - mean) / std for each colour: (B, 3, H, W) → same."""
    if levels.ndim == 2:  # vectors, which have no colours
        return levels
    # Python numbers, not a tensor of constants: nothing to copy to the device.
    colours = zip(levels.unbind(1), mean, std, strict=True)
    return torch.stack([(colour / 255 - m) / s for colour, m, s in colours], 1)


def evaluation_view(images: Tensor, size: int, kind: str, mean: Channels, std: Channels) -> Tensor:
    """The plain view of stored images, normalised: uint8 (B, 3, H, W) → float32 (B, 3, size, size).

    Images of another size are cropped to their centre if they are of kind "imagenet" and large enough,
    because those are stored larger on purpose; otherwise their central square is resized. The plain view of a
    vector is the mean of its stored views, scaled to unit length.
    """
    if kind == "vectors":
        return F.normalize(images.float().mean(1), dim=-1)
    height, width = images.shape[2:]
    side = size if kind == "imagenet" and min(height, width) >= size else min(height, width)
    top, left = round((height - side) / 2), round((width - side) / 2)
    square = images[..., top : top + side, left : left + side].float()
    if side != size:
        corner, extent = square.new_zeros(len(images), 2), square.new_full((len(images), 2), side)
        square = resample(square, torch.cat([corner, extent], 1), size)
    return normalise(square, mean, std)
