"""Puts data, encoder, method and engine together: pretrain, discover, evaluate, predict."""

from newfound import methods, stages
from newfound.experiment.folder import Folder
from newfound.experiment.run import Run, Stopped
from newfound.experiment.source import Source

__all__ = ["Folder", "Run", "Source", "Stopped", "methods", "stages"]
