"""Pretraining stages, shared between methods. Importing the package registers them."""

from newfound.stages import matched
from newfound.stages.known import Known
from newfound.stages.rotnet import RotNet
from newfound.stages.supervised import Supervised

__all__ = ["Known", "RotNet", "Supervised", "matched"]
