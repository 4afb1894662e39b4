"""An augmentation is a pure function of the images and of uniform random numbers.

Between operations, images are float32 levels (B, 3, H, W), whole numbers in 0..255 as in Pillow. Randomness
is data: no operation draws random numbers, so the same numbers give the same bits, compiled or not.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor


class Op(Protocol):
    """A random operation on a batch."""

    @property
    def noise(self) -> int:
        """How many uniform numbers in [0, 1) it needs for each sample."""

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        """Images (B, 3, H, W), u (B, noise) → (B, 3, h, w)."""


def per_image(values: Tensor) -> Tensor:
    """(B,) → (B, 1, 1, 1), to broadcast over the pixels of each image."""
    return values[:, None, None, None]


def where(mask: Tensor, change: Callable[..., Tensor], images: Tensor, *given: Tensor) -> Tensor:
    """`change(images, *given)` for the samples where `mask` (B,) is true; the others stay as they are.

    Static shapes require changing all samples and dropping some results. Eager code on a CPU may look at the
    mask, and changes only the samples it has to.
    """
    if images.device.type != "cpu" or torch.compiler.is_compiling():
        return torch.where(per_image(mask), change(images, *given), images)
    rows = mask.nonzero()[:, 0]
    return images.index_copy(0, rows, change(images[rows], *(each[rows] for each in given)))


def nearest_level(images: Tensor) -> Tensor:
    """Round to whole levels, halves up as in Pillow."""
    return (images + 0.5).floor()


def noise_of(ops: Sequence[Op]) -> int:
    """How many uniform numbers a chain of operations needs for each sample."""
    return sum(op.noise for op in ops)


def apply(ops: Sequence[Op], images: Tensor, u: Tensor) -> Tensor:
    """Apply each operation in turn with its columns of u: (B, 3, H, W), (B, noise) → (B, 3, h, w)."""
    start = 0
    for op in ops:
        images = op(images, u[:, start : start + op.noise])
        start += op.noise
    return images
