"""DTC: deep transfer clustering (Han et al., ICCV 2019).

    L = KL(p || q) + w(t) MSE(q(x), q')      KL and MSE: means over samples and clusters

q_ik ∝ 1 / (1 + ||z_i - mu_k||²) is the soft assignment of an image to each centre, p_ik ∝ q_ik² / sum_i q_ik
its target, recomputed every few epochs from q of all unlabelled images. q' depends on the variant:

    baseline  no second term          pi   q of another view x'
    te        running mean of past q  tep  no second term; p from the running mean of q instead of the last q

The running mean decays by `memory` per epoch; w(t) = consistency * r(t), r the sigmoid ramp.

Shapes: V views, M unlabelled samples, n in the whole set, D features, K = C_u clusters.

Deviation: as in the tables of later papers, it starts from RotNet and a supervised last block, and uses RS's
network on CIFAR100 too; te has no second term in the first epoch, where the published code compares with
zeros; on ImageNet te recomputes p as the others do. Training uses unlabelled images only, so the classifier
of the known classes is frozen: task-agnostic scores are its log-probabilities next to log q.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.learner import Bank, Method, Uses
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import Count, NonNegative, Positive, ShareBelowOne, TrainConfig, setting
from newfound.losses.prediction import ramp_up
from newfound.methods._recipes import RS_CIFAR, RS_DIGITS, RS_IMAGENET, RS_OWN, RS_VECTORS, must_hold
from newfound.nn.heads import FrozenClassifier, LinearHead
from newfound.stages.centres import CENTRES, ClusterHead, kl_element_mean, target_distribution
from newfound.stages.rotnet import ROTNET
from newfound.stages.supervised import KNOWN

_CIFAR100 = RS_CIFAR | {
    "variant": "te",
    "refresh": 10,
    "lr_falls": "0.2,0.4,0.6,0.8",
    "lr_factor": 0.5,
    "weight_decay": 1e-5,
    "centres.epochs": 30,
    "centres.weight_decay": 1e-5,
}
_IMAGENET = RS_IMAGENET | {
    "variant": "tep",
    "consistency": 100.0,
    "epochs": 60,
    "batch_size": 128,
    "augmentation": "none",
    "labelled_share": "proportional",
    "lr_falls": CENTRES.lr_falls,
    "weight_decay": 1e-5,
    "centres.augmentation": "none",
    "centres.weight_decay": 1e-5,
}
"""Only pi augments on ImageNet."""


@register(
    "dtc",
    published={"cifar10": RS_CIFAR, "cifar100": _CIFAR100, "imagenet-30": _IMAGENET},
    ours={
        "digits": RS_DIGITS | {"rampup": 5, "centres.batch_size": 64},
        "own": RS_OWN | {"epochs": 100},
        "vectors": RS_VECTORS | {"rampup": 5},
    },
)
class DTC(Method):
    """Clusters trained towards their own sharpened assignments."""

    uses: ClassVar[Uses] = "unlabelled"
    schedules = {
        "rotnet": ROTNET,
        "known": KNOWN,
        "centres": CENTRES,
        "discover": TrainConfig(
            epochs=100,
            batch_size=128,
            augmentation="twice-reflect",
            warmup=0,
            lr=0.05,
            lr_falls=CENTRES.lr_falls,
            lr_factor=CENTRES.lr_factor,
        ),
    }
    matched = ("pretrain", "known", "centres")

    @dataclass(frozen=True)
    class Config:
        variant: Literal["baseline", "pi", "te", "tep"] = setting(
            "pi", "consistency: none, between two views, with past assignments, or of past targets"
        )
        refresh: Positive = setting(5, "epochs between updates of the targets p")
        consistency: NonNegative = setting(10.0, "consistency weight after the ramp; for pi and te")
        rampup: Count = setting(5, "epochs of the consistency ramp")
        memory: ShareBelowOne = setting(0.6, "decay per epoch of the running mean; for te and tep")

    targets: Tensor
    past: Tensor

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.known = FrozenClassifier(encoder, LinearHead(encoder.dim, task.num_known))
        self.clusters = ClusterHead(encoder.dim, task.num_novel)
        for name in ("targets", "past"):
            self.register_buffer(name, torch.zeros(task.num_unlabelled, task.num_novel))

    @property
    def views(self) -> Views:
        return Views(large=2 if self.config.variant == "pi" else 1)

    def adopt(self, weights: Mapping[str, Tensor]) -> list[str]:
        must_hold(weights, "clusters", "centres")
        return super().adopt(weights)

    def begin(self, bank: Bank) -> None:
        self.targets.copy_(target_distribution(self._assignments(bank)))

    def after_epoch(self, bank: Bank, clock: Clock) -> None:
        due, remembers = int(clock.epoch) % self.config.refresh == 0, self.config.variant == "tep"
        if not (due or remembers):
            return
        q = self._assignments(bank)
        if remembers:
            self.past.lerp_(q, 1 - self.config.memory)
            q = unbiased(self.past)
        if due:
            self.targets.copy_(target_distribution(q))

    def _assignments(self, bank: Bank) -> Tensor:
        """q of every unlabelled image, (n, K)."""
        return bank.unlabelled(lambda images: self.clusters(self.encoder(images))).exp()

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        log_q = self.clusters(self.encode(batch.views))
        out = {"log_q": log_q, "p": self.targets[batch.index]}
        if self.config.variant == "te":
            q, past = log_q[0].detach().exp(), self.past[batch.index]
            out["past"] = torch.where(past.sum(-1, keepdim=True) > 0, unbiased(past), q)
            self.past.index_copy_(0, batch.index, past.lerp(q, 1 - self.config.memory))
        return out

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        c, q = self.config, out["log_q"].exp()
        losses = {"kl": kl_element_mean(out["log_q"][0], out["p"])}
        if c.variant in ("pi", "te"):
            other = q[1] if c.variant == "pi" else out["past"]
            losses["consistency"] = ramp_up(clock, c.rampup) * c.consistency * F.mse_loss(q[0], other)
        return losses

    def scores(self, images: Tensor) -> Tensor:
        known = self.known(images).float().log_softmax(-1)
        return torch.cat([known, self.clusters(self.encoder(images))], -1)[None]


def unbiased(past: Tensor) -> Tensor:
    """Running means of q that started at zero (n, K), bias-corrected.

    After t updates a row sums to 1 - memory^t, so dividing by the sum corrects it, also for images that
    missed an epoch.
    """
    return past / past.sum(-1, keepdim=True).clamp_min(torch.finfo(past.dtype).tiny)
