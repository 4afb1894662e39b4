"""Batched augmentation on the device: pure functions of images and uniform numbers, tested against Pillow."""

from newfound.data.augment.augmenter import Augmenter, evaluation_view
from newfound.data.augment.geometry import rotate4
from newfound.data.augment.recipes import NORMALISATION

__all__ = ["NORMALISATION", "Augmenter", "evaluation_view", "rotate4"]
