"""Supervised training on the known classes: `pretrain` with a cosine head, `known` with a linear one.

    pretrain:  L = mean over two views of CE(h(z) / tau, y)
    known:     L = CE(h(z), y), for methods in the style of RS; after RotNet it trains the last block only

Shapes: V views, N labelled samples, D features, C_l known classes.
"""

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.learner import Learner, NoSettings, Uses
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register_stage
from newfound.core.settings import TrainConfig
from newfound.nn.heads import CosineHead, LinearHead

TAU = 0.1
"""Softmax temperature of `pretrain`."""
KNOWN = TrainConfig(
    epochs=100,
    batch_size=128,
    augmentation="weak",
    lr=0.1,
    warmup=0,
    lr_falls="0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9",
    lr_factor=0.5,
    trains="last-block",
)


@register_stage("pretrain")
class Supervised(Learner):
    """Encoder and cosine head h."""

    uses: ClassVar[Uses] = "labelled"
    views = Views(large=2)

    def __init__(self, encoder: Encoder, task: Task, config: NoSettings) -> None:
        super().__init__(encoder, task, config)
        self.h = CosineHead(encoder.dim, task.num_known)

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        return {"known": self.h(self.encode(batch.views))}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        return {"ce": view_cross_entropy(out["known"], batch.labels, TAU)}

    def after_step(self) -> None:
        self.h.normalise_()


@register_stage("known")
class Known(Learner):
    """Encoder and linear head h."""

    uses: ClassVar[Uses] = "labelled"
    views = Views(large=1)

    def __init__(self, encoder: Encoder, task: Task, config: NoSettings) -> None:
        super().__init__(encoder, task, config)
        self.h = LinearHead(encoder.dim, task.num_known)

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        return {"known": self.h(self.encode(batch.views))}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        return {"ce": view_cross_entropy(out["known"], batch.labels, tau=1.0)}


def view_cross_entropy(logits: Tensor, labels: Tensor, tau: float) -> Tensor:
    """Logits (V, B, C), labels (B,) → cross-entropy, mean over views and batch."""
    return F.cross_entropy((logits.float() / tau).flatten(0, 1), labels.repeat(len(logits)))
