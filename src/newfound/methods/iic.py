"""IIC: inter-class and intra-class constraints (Li et al., CVPR 2023).

    L = (L_CE + L_over) / 2 - alpha * L_inter + beta * L_intra                                     (Eq. 9)

Shapes: V views (L large first), K heads, B = N + M samples (N labelled first), D features,
C = C_l + C_u classes, F over-clustering factor.

The paper's ablations are settings: alpha=0 and beta=0 switch a constraint off, intra=mse is its Table 3. In
the variation cross-only the inter-class term, taken from the settings `constraints.*`, keeps only its
cross-entropies and so no longer rewards low entropy.

Our extension to mixed piles: unlabelled images have targets among all classes, and the weight of a pair in
L_inter is the predicted probability that its unlabelled image is novel.
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import Count, NonNegative, Positive, PositiveFloat, TwoOrMore, setting
from newfound.losses.divergence import inter_class, intra_class
from newfound.losses.prediction import swapped_cross_entropy
from newfound.methods._recipes import DIGITS, IMAGENET, OWN, UNO_SCHEDULES, VECTORS
from newfound.nn.heads import CosineHead, MultiHead, joint_logits
from newfound.pseudo.sinkhorn import Prior, unified_targets


@register(
    "iic",
    published={
        "cifar10": {"overcluster": 10},
        "cifar100-20": {"alpha": 0.02, "overcluster": 5},
        "cifar100-50": {"overcluster": 3},
        "imagenet-30": IMAGENET | {"heads": 2, "overcluster": 4, "lr": 0.2},
    },
    # docs/lab-notes.md says how these values of alpha were chosen.
    ours={"digits": DIGITS | {"alpha": 0.01}, "own": OWN | {"alpha": 0.01}, "vectors": VECTORS},
    variations={
        "inter-only": {"beta": 0.0},
        "intra-only": {"alpha": 0.0},
        # The paper gives no weight; with this one the initial gradient on the logits is as long as sKLD's.
        "mse": {"alpha": 0.0, "intra": "mse", "beta": 0.03},
        "cross-only": {"alpha": 0.0, "constraints.alpha": 0.05, "constraints.form": "cross"},
        "appendix": {"alpha": 0.05},
        "crop-by-crop": {"norm_over": "crop"},
    },
    only_on={
        # The shortest schedule that reached 99.0, in one run of two (docs/lab-notes.md); about half of all
        # epochs; five minutes on an H200.
        "cifar10": {
            "fast": {"epochs": 320},
            "half": {"epochs": 240, "pretrain.epochs": 100},
            "five-minutes": {"epochs": 140, "pretrain.epochs": 100},
        },
    },
)
class IIC(Method):
    """UNO's objective; predictions are pushed apart between the sets and pulled together between views."""

    joint = True
    mixed = True
    schedules = UNO_SCHEDULES

    @dataclass(frozen=True)
    class Config:
        alpha: NonNegative = setting(0.05, "weight of the inter-class constraint; 0: off")
        beta: NonNegative = setting(0.01, "weight of the intra-class constraint; 0: off")
        intra: Literal["skld", "mse"] = setting("skld", "divergence of the intra-class constraint")
        intra_norm: Literal["code", "paper"] = setting(
            "code", "code: divided by the number of classes, as in the authors' code; paper: not divided"
        )
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
        z = self.encode(batch.views)
        known = self.h(z)
        return {"logits": joint_logits(known, self.g(z)), "over": joint_logits(known, self.o(z))}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        c, N, mixed = self.config, batch.num_labelled, self.task.pile == "mixed"
        ce, over = (
            swapped_cross_entropy(
                logits, unified_targets(logits, batch, self.views, self.task, c.sinkhorn_eps, c.prior), c.tau
            )
            for logits in (out["logits"], out["over"])
        )
        losses = {"ce": ce / 2, "over": over.mean() / 2}
        if c.alpha:
            weighted = self.task.num_known if mixed else None
            losses["inter"] = -c.alpha * inter_class(out["logits"], N, c.tau, num_known=weighted)
        if c.beta:
            losses["intra"] = c.beta * intra_class(
                out["logits"], N, self.task.num_known, c.tau, c.intra, c.intra_norm, mixed
            )
        return losses

    def after_step(self) -> None:
        for head in (self.h, self.g, self.o):
            head.normalise_()

    def scores(self, images: Tensor) -> Tensor:
        z = self.encoder(images)[None]
        logits = joint_logits(self.h(z), self.g(z))[0]
        return logits.div(self.config.tau)
