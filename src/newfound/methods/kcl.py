"""KCL and MCL: clustering by predicted pairs (Hsu et al., ICLR 2018 and ICLR 2019).

    KCL:  L = mean_ij  s_ij KL(p_j || p_i) + (1 - s_ij) max(0, margin - KL(p_j || p_i))     p_j no gradient
    MCL:  L = mean_ij  - s_ij log <p_i, p_j> - (1 - s_ij) log(1 - <p_i, p_j>)

s_ij = 1 iff a network trained on pairs of known classes predicts that i and j share a class. It is frozen,
but BatchNorm of its last block and pair head uses the statistics of the batch and so adapts to the new
classes.

Shapes: M unlabelled samples, D features, C = C_l + C_u classes.

Deviation: no code for these benchmarks was published. The pretraining is RS's, as in the tables of later
papers, and the last block is trained for as long as RS's, with the optimiser of the published examples. The
similarity network sits on the frozen trunk of the known-class classifier (see its stage), whose BatchNorm
statistics are fixed. Batches have 100 images everywhere; the published CIFAR100 example, with labels, has
1000. Training uses unlabelled images only, so task-agnostic scores are log-probabilities of that classifier
next to those of g.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.learner import Method, Uses
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import Overrides, PositiveFloat, TrainConfig, setting
from newfound.losses.pairs import EPS, pairwise_bce
from newfound.methods._recipes import RS_CIFAR, RS_DIGITS, RS_IMAGENET, RS_OWN, must_hold
from newfound.nn.heads import FrozenClassifier, LinearHead, with_frozen_copy
from newfound.stages.rotnet import ROTNET
from newfound.stages.similarity import SIMILARITY, SimilarityNetwork
from newfound.stages.supervised import KNOWN

_FALLS = "0.6667"
_OURS: dict[str, Overrides] = {
    "cifar10": RS_CIFAR | {"similarity.classes_per_batch": 5},
    "cifar100": RS_CIFAR | {"similarity.classes_per_batch": 20},
    "imagenet-30": RS_IMAGENET
    | {
        "similarity.classes_per_batch": 20,
        "batch_size": 100,
        "augmentation": "weak",
        "labelled_share": "proportional",
        "lr_falls": _FALLS,
    },
    "digits": {key: value for key, value in RS_DIGITS.items() if key != "rampup"}
    | {"similarity.batch_size": 64},
    "own": RS_OWN,
}


@register(
    "kcl", what="KCL: clustering by predicted pairs, with a KL loss (Hsu et al., ICLR 2018).", ours=_OURS
)
@register(
    "mcl",
    what="MCL: clustering by predicted pairs, by their likelihood (Hsu et al., ICLR 2019).",
    preset={"pair_loss": "likelihood"},
    ours=_OURS,
)
class PairClustering(Method):
    """A clustering head g trained on the pairs that the similarity network predicts."""

    needs_maps = True
    uses: ClassVar[Uses] = "unlabelled"
    fewest = 2
    views = Views(large=1)
    schedules = {
        "rotnet": ROTNET,
        "known": KNOWN,
        "similarity": SIMILARITY,
        "discover": TrainConfig(
            epochs=200,
            batch_size=100,
            augmentation="weak",
            optimiser="adam",
            lr=1e-3,
            lr_falls=_FALLS,
            warmup=0,
            weight_decay=0.0,
            trains="last-block",
        ),
    }
    matched = ("pretrain", "known", "similarity")

    @dataclass(frozen=True)
    class Config:
        pair_loss: Literal["kl-hinge", "likelihood"] = setting(
            "kl-hinge", "loss of a pair: KL with a hinge as in KCL, or the likelihood of its label as in MCL"
        )
        margin: PositiveFloat = setting(2.0, "margin of the divergence between classes, for kl-hinge")

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.known = FrozenClassifier(encoder, LinearHead(encoder.dim, task.num_known))
        self.similarity = SimilarityNetwork(encoder).requires_grad_(False)
        self.g = LinearHead(encoder.dim, task.num_novel)

    def adopt(self, weights: Mapping[str, Tensor]) -> list[str]:
        must_hold(weights, "similarity", "similarity")
        return super().adopt(with_frozen_copy(weights, "known"))

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        with torch.no_grad():
            z = self.similarity.features(self.known.encoder.trunk(batch.views[0][0]))
            two, one = self.similarity(self.whole(z)).unbind(-1)
        return {"novel": self.g(self.encode(batch.views)[0]), "same": one > two}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        p, same = out["novel"].float().softmax(-1), out["same"]
        if self.config.pair_loss == "likelihood":
            return {"bce": pairwise_bce(p, p, same)}
        return {"kl_hinge": pairwise_kl_hinge(p, same, self.config.margin)}

    def scores(self, images: Tensor) -> Tensor:
        return self.both_scores(images)[0]

    def both_scores(self, images: Tensor) -> tuple[Tensor, Tensor]:
        known, novel = self.known(images), self.g(self.encoder(images))
        joint = torch.cat([part.float().log_softmax(-1) for part in (known, novel)], -1)
        return joint[None], novel[None]


def pairwise_kl_hinge(p: Tensor, same: Tensor, margin: float) -> Tensor:
    """Probabilities (M, C) and `same` (M, M) → KL or its hinge, mean over ordered pairs.

        KL(p_j || p_i) for pairs of the same class, else max(0, margin - KL(p_j || p_i)); p_j has no gradient

    All divergences at once: KL(p_j || p_i) = <p_j, log p_j> - <p_j, log p_i>, whose last term is a product.
    """
    p = p.float() + EPS
    target = p.detach()
    apart = (target * target.log()).sum(-1) - p.log() @ target.mT
    return torch.where(same, apart, F.relu(margin - apart)).mean()
