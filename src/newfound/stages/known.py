"""Supervised training of a linear classifier on the known classes, after RotNet that of its last block alone.

    L = CE(h(z), y)

Shapes: N labelled samples, D features, C_l known classes.
"""

from typing import ClassVar

from newfound.core.config import TrainConfig
from newfound.core.encoder import Encoder
from newfound.core.learner import Learner, NoSettings, Uses
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register_stage
from newfound.losses.classification import view_cross_entropy
from newfound.nn.heads import LinearHead

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
