"""SimGCD: a parametric classifier for generalised category discovery (Wen et al., ICCV 2023).

    L = (1 - lambda) (L_cluster + L_InfoNCE) + lambda (L_CE + L_SupCon)

    L_cluster = mean over both views of  H(softmax(l' / tau_t), softmax(l / tau))  +  epsilon (log C - H(p))

l are the cosines of the features with C prototypes of unit length, l' those of the other view, without
gradient; p is the mean of softmax(l / tau) over the batch and both views. tau_t falls from 0.07 to 0.04 in
the first epochs. L_cluster and L_InfoNCE are over all images, L_CE and L_SupCon over the labelled ones. The
two contrasts are GCD's, on the projections g(z).

Shapes: V = 2 views, B = N + M samples (N labelled first), D features, C = C_l + C_u classes.

Deviation: any encoder can be used, where the authors train the last block of DINO's ViT-B/16; one that is not
pretrained is first trained on the labelled images. Weight decay applies to every parameter, not only to
matrices. N and M are each half of a batch, where the authors draw every image from either set at random.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.core.encoder import Encoder
from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import Count, NonNegative, Positive, PositiveFloat, Share, setting
from newfound.losses.pairs import contrast_terms
from newfound.losses.prediction import swapped_cross_entropy
from newfound.methods._recipes import GCD_DIGITS, GCD_OWN, GCD_SCHEDULES, GCD_VECTORS
from newfound.nn.heads import Projector
from newfound.stages.supervised import view_cross_entropy


@register(
    "simgcd",
    published={"cifar10": {"entropy": 1.0}, "cifar100": {"entropy": 4.0}},
    ours={"digits": GCD_DIGITS, "own": GCD_OWN, "vectors": GCD_VECTORS},
)
class SimGCD(Method):
    """One classifier of all classes, which learns from labels, from its other view and from its mean."""

    joint = True
    made_for = "mixed"
    mixed = True
    views = Views(large=2)
    schedules = GCD_SCHEDULES

    @dataclass(frozen=True)
    class Config:
        supervised: Share = setting(0.35, "weight lambda of the terms with labels")
        entropy: NonNegative = setting(
            2.0, "weight epsilon of the entropy of the mean prediction; larger: more equal class sizes"
        )
        tau: PositiveFloat = setting(0.1, "softmax temperature")
        teacher_tau: PositiveFloat = setting(0.04, "final softmax temperature of the other view")
        first_teacher_tau: PositiveFloat = setting(0.07, "initial softmax temperature of the other view")
        teacher_epochs: Count = setting(30, "epochs in which first_teacher_tau falls to teacher_tau")
        contrast_tau: PositiveFloat = setting(1.0, "temperature of InfoNCE")
        known_tau: PositiveFloat = setting(0.07, "temperature of the supervised contrast")
        hidden: Positive = setting(2048, "hidden width of the projector")
        projection: Positive = setting(256, "output dimensions of the projector")

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.g = Projector(encoder.dim, config.hidden, config.projection)
        self.prototypes = nn.Linear(encoder.dim, task.num_classes, bias=False)

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        z = self.encode(batch.views)
        return {"logits": self.cosines(z).unsqueeze(1), "projected": self.g(z)}

    def cosines(self, z: Tensor) -> Tensor:
        """(..., D) → (..., C); the gradient of a prototype is orthogonal to it, unlike in `CosineHead`."""
        with torch.autocast(z.device.type, enabled=False):
            return F.normalize(z.float(), dim=-1) @ F.normalize(self.prototypes.weight, dim=-1).mT

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        c, logits, N = self.config, out["logits"], batch.num_labelled
        targets = (logits.detach() / teacher_temperature(clock, c)).softmax(-1)
        return {
            "cluster": (1 - c.supervised) * swapped_cross_entropy(logits, targets, c.tau),
            "entropy": (1 - c.supervised) * c.entropy * missing_entropy(logits, c.tau),
            "ce": c.supervised * view_cross_entropy(logits[:, 0, :N], batch.labels, c.tau),
            **contrast_terms(out["projected"], batch.labels, c.supervised, c.contrast_tau, c.known_tau),
        }

    def scores(self, images: Tensor) -> Tensor:
        return self.cosines(self.encoder(images)).div(self.config.tau)[None]


def teacher_temperature(clock: Clock, config: SimGCD.Config) -> Tensor:
    """tau_t of the epoch: it falls linearly for `teacher_epochs`, then stays constant."""
    if not config.teacher_epochs:
        return torch.full_like(clock.epoch, config.teacher_tau)
    share = (clock.epoch / max(config.teacher_epochs - 1, 1)).clamp(max=1)
    return config.first_teacher_tau + share * (config.teacher_tau - config.first_teacher_tau)


def missing_entropy(logits: Tensor, tau: float) -> Tensor:
    """Logits (..., C) → log C - H(p), p the mean of their softmax: 0 if all classes are equally frequent."""
    p = (logits.float() / tau).softmax(-1).flatten(0, -2).mean(0)
    return math.log(len(p)) + torch.xlogy(p, p).sum()
