"""A plug-in for the processes of a cluster: an encoder that says which process uses it, and is slow."""

import os
import time
from pathlib import Path

import torch
from torch import nn

from newfound.core.encoder import Encoder, Preprocessing
from newfound.core.registry import register_encoder

WHO = "QUARTERS_WHO"
"""The folder in which each process leaves its number."""


@register_encoder("quarters")
class Quarters(Encoder):
    """The mean colour of each quarter."""

    dim, revision = 12, "one"
    preprocessing = Preprocessing(8, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), shorter=10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if folder := os.environ.get(WHO):
            Path(folder, str(os.getpid())).touch()
            while len(os.listdir(folder)) < 2:  # processes at work
                time.sleep(0.05)
            time.sleep(0.3)
        return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)
