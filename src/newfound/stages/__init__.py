"""Pretraining stages, shared between methods. Importing the package registers them."""

from newfound.stages.supervised import Supervised

__all__ = ["Supervised"]
