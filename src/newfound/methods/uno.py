"""UNO: a unified objective for novel class discovery (Fini et al., ICCV 2021).

    v1:  L = L_CE + L_over          v2:  L = (L_CE + L_over) / 2

Shapes: V views (L large first), K heads, B = N + M samples (N labelled first), D features,
C = C_l + C_u classes.

Our extension to mixed piles: unlabelled images have targets among all classes.

Deviation: v1 follows the code that produced the paper's numbers, not its text: the softmax runs over the
batch, not over the classes, which the authors later called an oversight that worked; softmax_axis=class is
the text's version. That loss is a sum over the batch. On ImageNet two GPUs computed it over 256 samples each
with lr 0.02 and averaged their gradients; here it covers all 512, so lr is half of that.
"""

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import Count, Positive, PositiveFloat, TwoOrMore, setting
from newfound.losses.prediction import swapped_cross_entropy
from newfound.methods._recipes import DIGITS, IMAGENET, OWN, UNO_SCHEDULES, VECTORS, WITH_CONSTRAINTS
from newfound.nn.heads import CosineHead, MultiHead, joint_logits
from newfound.pseudo.sinkhorn import Prior, unified_targets

_V1 = {
    "softmax_axis": "batch",
    "normalise_features": True,
    "combine": "sum",
    "overcluster": 3,
    "small_crops": 0,
    "epochs": 200,
    "batch_size": 256,
    "lr": 0.1,
    "weight_decay": 1e-4,
    "augmentation": "v1",
    "pretrain.augmentation": "v1",
}


@register(
    "uno-v1",
    what="UNO v1: a unified objective, as in the paper (Fini et al., ICCV 2021).",
    # On ImageNet, v1's learning rate, heads and over-clusters are known; the rest is v2's.
    preset=_V1,
    published={
        **{name: {} for name in ("cifar10", "cifar100-20", "cifar100-50")},
        "imagenet-30": IMAGENET | {"heads": 3, "lr": 0.01},
    },
    ours={
        "digits": DIGITS | {"augmentation": "v2", "pretrain.augmentation": "v2"},
        "own": OWN,
        "vectors": VECTORS | {"lr": 0.01},  # the loss is a sum over the batch
    },
    variations=WITH_CONSTRAINTS,
)
@register(
    "uno-v2",
    what="UNO v2: a unified objective, its authors' later recipe with small crops (Fini et al., ICCV 2021).",
    published={
        "cifar10": {"overcluster": 10},
        "cifar100-20": {"overcluster": 5},
        "cifar100-50": {"overcluster": 3},
        "imagenet-30": IMAGENET | {"overcluster": 4, "lr": 0.2},
    },
    ours={"digits": DIGITS, "own": OWN, "vectors": VECTORS},
    variations={"appendix": {}},
)
class UNO(Method):
    """Labels and pseudo-labels as one target, which the other views predict."""

    joint = True
    mixed = True
    schedules = UNO_SCHEDULES

    @dataclass(frozen=True)
    class Config:
        tau: PositiveFloat = setting(0.1, "softmax temperature")
        sinkhorn_eps: PositiveFloat = setting(0.05, "Sinkhorn regularisation; larger: smoother pseudo-labels")
        prior: Prior = setting(
            "equal", "class sizes in pseudo-labels; learned: drawn towards equal ones, not forced"
        )
        heads: Positive = setting(4, "clustering heads, and as many over-clustering heads")
        overcluster: Positive = setting(3, "over-clusters per novel class")
        hidden: Positive = setting(2048, "hidden width of the projectors")
        projection: Positive = setting(256, "output dimensions of the projectors")
        large_crops: TwoOrMore = setting(2, "full-size crops per image, which predict each other")
        small_crops: Count = setting(2, "small crops per image")
        softmax_axis: Literal["class", "batch"] = setting("class", "axis of the softmax in the loss")
        normalise_features: bool = setting(False, "whether to normalise features before the heads")
        combine: Literal["mean", "sum"] = setting(
            "mean", "how to combine clustering and over-clustering losses"
        )

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.h = CosineHead(encoder.dim, task.num_known)
        width = (config.heads, config.hidden, config.projection)
        self.g = MultiHead(encoder.dim, task.num_novel, *width)
        self.o = MultiHead(encoder.dim, task.num_novel * config.overcluster, *width)

    @property
    def views(self) -> Views:
        return Views(self.config.large_crops, self.config.small_crops)

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        z = self.features(self.encode(batch.views))
        known = self.h(z)
        return {"logits": joint_logits(known, self.g(z)), "over": joint_logits(known, self.o(z))}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        c = self.config
        scale = 0.5 if c.combine == "mean" else 1.0
        ce, over = (
            scale
            * swapped_cross_entropy(
                logits,
                unified_targets(logits, batch, self.views, self.task, c.sinkhorn_eps, c.prior),
                c.tau,
                c.softmax_axis,
            )
            for logits in (out["logits"], out["over"])
        )
        return {"ce": ce, "over": over.mean()}

    def features(self, z: Tensor) -> Tensor:
        return F.normalize(z.float(), dim=-1) if self.config.normalise_features else z

    def after_step(self) -> None:
        for head in (self.h, self.g, self.o):
            head.normalise_()

    def scores(self, images: Tensor) -> Tensor:
        z = self.features(self.encoder(images))[None]
        logits = joint_logits(self.h(z), self.g(z))[0]
        return logits.div(self.config.tau)
