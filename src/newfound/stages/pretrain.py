"""Supervised pretraining on the known classes.

    L = mean over two views of CE(h(z) / tau, y)

Shapes: V views, N labelled samples, D features, C_l known classes.
"""

from typing import ClassVar

from newfound.core.encoder import Encoder
from newfound.core.learner import Learner, NoSettings, Uses
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register_stage
from newfound.losses.classification import view_cross_entropy
from newfound.nn.heads import CosineHead

TAU = 0.1
"""Temperature of the softmax."""


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
