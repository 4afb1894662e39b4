"""rKD: class-relation knowledge distillation (Gu et al., ICCV 2023).

    L = L_CE + weight * L_rKD     with L_CE as in UNO v2, without over-clustering

L_rKD distils the known-class predictions of the network before discovery into those of large crops of
unlabelled samples, weighted by how much a sample looks like known classes: `relation_distillation`.

Shapes: V views (L large first), K heads, B = N + M samples (N labelled first), D features,
C = C_l + C_u classes.

Deviation: it starts from UNO's pretraining, since the released pretraining script is broken. The last epoch
is kept, where the published code keeps the one with the highest accuracy on the novel classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import Count, NonNegative, Positive, PositiveFloat, TwoOrMore, setting
from newfound.losses.prediction import swapped_cross_entropy
from newfound.methods._recipes import DIGITS, OWN, UNO_SCHEDULES, VECTORS, WITH_CONSTRAINTS, must_hold
from newfound.nn.heads import CosineHead, FrozenClassifier, MultiHead, joint_logits, with_frozen_copy
from newfound.pseudo.sinkhorn import unified_targets


@register(
    "rkd",
    published={"cifar100-20": {}, "cifar100-50": {}},
    ours={
        "cifar10": {},
        "digits": {key: value for key, value in DIGITS.items() if key != "overcluster"},
        "own": OWN,
        "vectors": VECTORS,
    },
    variations=WITH_CONSTRAINTS,
)
class RKD(Method):
    """UNO's objective with a frozen teacher of the known classes."""

    joint = True
    schedules = UNO_SCHEDULES

    @dataclass(frozen=True)
    class Config:
        distillation: NonNegative = setting(0.1, "weight of the distillation; 0: off")
        temperature: PositiveFloat = setting(4.0, "temperature of the distillation")
        tau: PositiveFloat = setting(0.1, "softmax temperature")
        sinkhorn_eps: PositiveFloat = setting(0.05, "Sinkhorn regularisation; larger: smoother pseudo-labels")
        heads: Positive = setting(4, "clustering heads")
        hidden: Positive = setting(2048, "hidden width of the projectors")
        projection: Positive = setting(256, "output dimensions of the projectors")
        large_crops: TwoOrMore = setting(2, "full-size crops per image, which predict each other")
        small_crops: Count = setting(2, "small crops per image")

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
            out["teacher"] = self.taught(batch.unlabelled_views[0], len(batch.index) - batch.num_labelled)
        return out

    @torch.no_grad()
    def taught(self, crops: Tensor, M: int) -> Tensor:
        """Large crops of the unlabelled images (L, m, 3, h, w) → the teacher's known logits (L, M, C_l)."""
        return self.whole(self.teacher(crops.flatten(0, 1)).unflatten(0, crops.shape[:2]), 1, M)

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
        """The teacher is a frozen copy of the network trained on the known classes."""
        must_hold(weights, "h", "pretrain")
        return super().adopt(with_frozen_copy(weights, "teacher"))

    def scores(self, images: Tensor) -> Tensor:
        z = self.encoder(images)[None]
        logits = joint_logits(self.h(z), self.g(z))[0]
        return logits.div(self.config.tau)


def relation_distillation(student: Tensor, teacher: Tensor, tau: float, temperature: float) -> Tensor:
    """Joint logits (V, K, M, C), the teacher's known ones (V, M, C_l) → mean cross-entropy over V, K and M.

        T² w_i / mean w  < - p_teacher,i , log p_student,i >

    p are over the known classes, of logits / (tau T); w is the student's total probability of the known
    classes, so novel images that look known follow the teacher more. The mean of w is over V, K and M;
    gradients flow through w.
    """
    num_known, scale = teacher.shape[-1], tau * temperature
    log_p = (student.float() / scale).log_softmax(-1)[..., :num_known]
    log_w = log_p.logsumexp(-1, keepdim=True)
    p_teacher = (teacher.float() / scale).softmax(-1).unsqueeze(1)
    entropies = -(p_teacher * (log_p - log_w)).sum(-1)
    w = log_w.squeeze(-1).exp()
    return temperature**2 * (w / w.mean() * entropies).mean()
