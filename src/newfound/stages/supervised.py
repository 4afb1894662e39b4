"""Supervised pretraining on the known classes.

    L = mean over two views of CE(h(z) / tau, y)

Shapes: V views, N labelled samples, D features, C_l known classes.
"""

from dataclasses import dataclass
from typing import ClassVar

from newfound.core.config import PositiveFloat, setting
from newfound.core.encoder import Encoder
from newfound.core.learner import Learner, Uses
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register_stage
from newfound.losses.classification import view_cross_entropy
from newfound.nn.heads import CosineHead


@register_stage("pretrain")
class Supervised(Learner):
    """Encoder and cosine head h."""

    uses: ClassVar[Uses] = "labelled"

    @dataclass(frozen=True)
    class Config:
        tau: PositiveFloat = setting(0.1, "temperature of the softmax")

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.h = CosineHead(encoder.dim, task.num_known)

    @property
    def views(self) -> Views:
        return Views(large=2)

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        return {"known": self.h(self.encode(batch.views))}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        return {"ce": view_cross_entropy(out["known"], batch.labels, self.config.tau)}

    def after_step(self) -> None:
        self.h.normalise_()
