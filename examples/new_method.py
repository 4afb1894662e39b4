"""A toy method: known classes from labels, novel ones from the mutual information of images and clusters.

    L = CE(h, y) + weight * [mean_j H(p_j) - H(mean_j p_j)]

Shapes: V = 1 view, B = N + M samples (N labelled first), C = C_l + C_u classes.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import NonNegative, TrainConfig, setting
from newfound.nn.heads import CosineHead

_DIGITS = {"epochs": 30, "batch_size": 64, "warmup": 2, "pretrain.epochs": 60, "pretrain.batch_size": 64}


@register("balance", ours={"digits": _DIGITS})
class Balance(Method):
    """Two heads on a network that was pretrained on the known classes."""

    views = Views(large=1)
    schedules = {"pretrain": TrainConfig(), "discover": TrainConfig(epochs=200)}

    @dataclass(frozen=True)
    class Config:
        weight: NonNegative = setting(1.0, "weight of the mutual information")
        tau: NonNegative = setting(0.1, "softmax temperature")

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.h = CosineHead(encoder.dim, task.num_known)
        self.g = CosineHead(encoder.dim, task.num_novel)

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        z = self.encode(batch.views)[0]
        return {"known": self.h(z) / self.config.tau, "novel": self.g(z) / self.config.tau}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        N = batch.num_labelled
        p = out["novel"][N:].softmax(-1)
        information = _entropy(p).mean() - _entropy(p.mean(0))
        return {"ce": F.cross_entropy(out["known"][:N], batch.labels), "mi": self.config.weight * information}

    def after_step(self) -> None:
        for head in (self.h, self.g):
            head.normalise_()

    def scores(self, images: Tensor) -> Tensor:
        z = self.encoder(images)
        return torch.cat([self.h(z), self.g(z)], -1).div(self.config.tau)[None]


def _entropy(p: Tensor) -> Tensor:
    return -(p * p.clamp(min=1e-7).log()).sum(-1)
