"""rKD: class-relation knowledge distillation (Gu et al., ICCV 2023).

    L = L_CE + weight * L_rKD     with L_CE as in UNO v2, without over-clustering

L_rKD holds the known part of what is said of unlabelled samples, in large crops, to what the network said of
them before discovery; the more a sample looks like known classes, the more: `losses.distillation`.

Shapes: V views (L large first), K heads, B = N + M samples (N labelled first), D features,
C = C_l + C_u classes.

Deviation: it starts from UNO's pretraining, since the released script for its own is broken. The last epoch
counts, where that code keeps the one of highest accuracy on the novel classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from newfound.core.config import Count, NonNegative, Positive, PositiveFloat, TwoOrMore, setting
from newfound.core.encoder import Encoder
from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.losses.distillation import relation_distillation
from newfound.losses.swapped import swapped_cross_entropy
from newfound.nn.frozen import FrozenClassifier, with_frozen_copy
from newfound.nn.heads import CosineHead, MultiHead
from newfound.nn.joint import joint_logits
from newfound.pseudo.unified import unified_targets
from newfound.stages.handover import must_hold
from newfound.stages.presets import DIGITS, OWN, UNO_SCHEDULES, WITH_CONSTRAINTS


@register(
    "rkd",
    published={"cifar100-20": {}, "cifar100-50": {}},
    ours={
        "cifar10": {},
        "digits": {key: value for key, value in DIGITS.items() if key != "overcluster"},
        "own": OWN,
    },
    variations=WITH_CONSTRAINTS,
)
class RKD(Method):
    """UNO's objective beside a frozen teacher of the known classes."""

    joint = True
    schedules = UNO_SCHEDULES

    @dataclass(frozen=True)
    class Config:
        distillation: NonNegative = setting(0.1, "weight of what the teacher says; 0 leaves it out")
        temperature: PositiveFloat = setting(4.0, "by what both softmaxes are softened for distillation")
        tau: PositiveFloat = setting(0.1, "temperature of the softmax")
        sinkhorn_eps: PositiveFloat = setting(0.05, "smoothness of the pseudo-labels")
        heads: Positive = setting(4, "clustering heads")
        hidden: Positive = setting(2048, "width of the projectors")
        projection: Positive = setting(256, "dimensions that the projectors map to")
        large_crops: TwoOrMore = setting(2, "full-size crops of each image, which predict each other")
        small_crops: Count = setting(2, "small crops of each image")

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.h = CosineHead(encoder.dim, task.num_known)
        self.g = MultiHead(encoder.dim, task.num_novel, config.heads, config.hidden, config.projection)
        self.teacher = FrozenClassifier(encoder, self.h)

    @property
    def views(self) -> Views:
        return Views(self.config.large_crops, self.config.small_crops)

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        z = self.encode(batch.views)
        out = {"logits": joint_logits(self.h(z), self.g(z))}
        if self.config.distillation:
            out["teacher"] = self.taught(batch.views[0][:, batch.num_labelled :])
        return out

    @torch.no_grad()
    def taught(self, crops: Tensor) -> Tensor:
        """Large crops of the unlabelled images (L, M, 3, h, w) → the teacher's known logits (L, M, C_l)."""
        logits: Tensor = self.teacher(crops.flatten(0, 1)).unflatten(0, crops.shape[:2])
        return logits

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        c, logits = self.config, out["logits"]
        targets = unified_targets(logits, batch, self.views, self.task, c.sinkhorn_eps)
        losses = {"ce": swapped_cross_entropy(logits, targets, c.tau)}
        if c.distillation:
            student = logits[: self.views.large, :, batch.num_labelled :]
            losses["rkd"] = c.distillation * relation_distillation(
                student, out["teacher"], c.tau, c.temperature
            )
        return losses

    def after_step(self) -> None:
        for head in (self.h, self.g):
            head.normalise_()

    def adopt(self, weights: Mapping[str, Tensor]) -> list[str]:
        """The teacher starts, and stays, as the network that was trained on the known classes."""
        must_hold(weights, "h", "pretrain")
        return super().adopt(with_frozen_copy(weights, "teacher"))

    def scores(self, images: Tensor) -> Tensor:
        z = self.encoder(images)[None]
        logits = joint_logits(self.h(z), self.g(z))[0]
        return logits.div(self.config.tau)
