"""RS and RS+: ranking statistics (Han et al., ICLR 2020, "AutoNovel").

    L = CE(h, y) + BCE(<g(x_i), g(x_j')>, s_ij) + w(t) [MSE(h(x), h(x')) + MSE(g(x), g(x'))]
    RS+:  + 0.05 r(t) CE(h, argmax g)   with h over all classes

s_ij = 1 iff the k largest features of i and j are the same; w(t) = weight * r(t), r the sigmoid ramp.
RS+ classifies all classes with h only, which is trained on g's predictions of the unlabelled samples.

Shapes: V = 2 views, B = N + M samples (N labelled first), D features, C = C_l + C_u classes.

Deviation: in RotNet, see its stage. RS, which the paper scores task-aware only, is scored task-agnostically
with h and g side by side. RS+ is scored without matching known classes, like every other method.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import Count, NonNegative, Overrides, Positive, setting
from newfound.losses.pairs import equal_top_k, joint_training
from newfound.losses.prediction import ramp_up
from newfound.methods._recipes import (
    RS_CIFAR,
    RS_CIFAR100,
    RS_DIGITS,
    RS_IMAGENET_VIEWS,
    RS_OWN,
    RS_SCHEDULES,
    RS_VECTORS,
)
from newfound.nn.heads import LinearHead

# docs/lab-notes.md says how the value for digits was chosen.
_OURS: dict[str, Overrides] = {
    "digits": RS_DIGITS | {"top": 1},
    "own": RS_OWN,
    "vectors": RS_VECTORS | {"rampup": 10},
}


@register(
    "rs",
    what='RS: ranking statistics (Han et al., ICLR 2020, "AutoNovel").',
    published={"cifar10": RS_CIFAR, "cifar100": RS_CIFAR100, "imagenet-30": RS_IMAGENET_VIEWS},
    ours=_OURS,
)
@register(
    "rs+",
    what='RS+: RS whose known-class head also learns the novel classes (Han et al., ICLR 2020, "AutoNovel").',
    preset={"incremental": True},
    published={
        "cifar10": RS_CIFAR,
        "cifar100": RS_CIFAR100 | {"batch_size": 256, "epochs": 400, "consistency": 25.0, "rampup": 300},
    },
    ours=_OURS | {"imagenet-30": RS_IMAGENET_VIEWS},
)
class RS(Method):
    """Labels for h, pair labels from ranked features for g, and consistency between two views for both."""

    views = Views(large=2)
    schedules = RS_SCHEDULES

    @dataclass(frozen=True)
    class Config:
        top: Positive = setting(5, "number of largest features that the images of a pair share")
        consistency: NonNegative = setting(5.0, "consistency weight after the ramp")
        rampup: Count = setting(50, "epochs of the consistency ramp")
        incremental: bool = setting(False, "whether h learns the novel classes from g, as in RS+")
        self_training: NonNegative = setting(0.05, "weight of h's self-training after the ramp")

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.joint = config.incremental
        self.h = LinearHead(encoder.dim, task.num_classes if config.incremental else task.num_known)
        self.g = LinearHead(encoder.dim, task.num_novel)

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        z = self.encode(batch.views)
        return {"features": z, "known": self.h(z), "novel": self.g(z)}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        c, N = self.config, batch.num_labelled
        known, novel = out["known"], out["novel"]
        same, ramp = equal_top_k(out["features"][0, N:], c.top), ramp_up(clock, c.rampup)
        losses = joint_training(known, novel, batch.labels, same, ramp * c.consistency)
        if c.incremental:
            believed = novel[0, N:].argmax(-1) + self.task.num_known
            losses["incremental"] = ramp * c.self_training * F.cross_entropy(known[0, N:], believed)
        return losses

    def adopt(self, weights: Mapping[str, Tensor]) -> list[str]:
        """RS+ extends the known-class head; novel classes start less likely than any known one."""
        if self.config.incremental and len(weights.get("h.bias", ())) == self.task.num_known:
            rows, biases, missing = weights["h.weight"], weights["h.bias"], self.task.num_novel
            weights = {
                **weights,
                "h.weight": torch.cat([rows, self.h.weight.detach()[-missing:].to(rows)]),
                "h.bias": torch.cat([biases, (biases.min() - 1).expand(missing)]),
            }
        return super().adopt(weights)

    def scores(self, images: Tensor) -> Tensor:
        return self.both_scores(images)[0]

    def both_scores(self, images: Tensor) -> tuple[Tensor, Tensor]:
        z = self.encoder(images)
        known, novel = self.h(z), self.g(z)
        joint = known if self.config.incremental else torch.cat([known, novel], -1)
        return joint[None], novel[None]
