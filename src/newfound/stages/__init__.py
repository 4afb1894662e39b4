"""Pretraining stages, shared between methods. Importing the package registers them."""

from newfound.stages import matched
from newfound.stages.centres import Centres
from newfound.stages.known import Known
from newfound.stages.pretrain import Supervised
from newfound.stages.rotnet import RotNet
from newfound.stages.similarity import Similarity

__all__ = ["Centres", "Known", "RotNet", "Similarity", "Supervised", "matched"]
