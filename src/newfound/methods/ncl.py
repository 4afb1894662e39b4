"""NCL: neighbourhood contrastive learning (Zhong et al., CVPR 2021).

    L = CE(h, y) + BCE(<g(x_i), g(x_j')>, s_ij) + w(t) [MSE(h(x), h(x')) + MSE(g(x), g(x'))]
        + L_ncl(unlabelled) + 0.1 L_scl(labelled)

s_ij = 1 iff the cosine of the features of i and j is above 0.95; w(t) = weight * r(t), r the sigmoid ramp.
L_ncl draws an image to its other view and its nearest neighbours in a memory of unlabelled images, L_scl to
its other view and all images of its class in a memory of labelled ones; both drive it away from the rest.
Hard negatives are remembered images far from it, mixed with labelled ones: of these the nearest to it.

Shapes: V = 2 views, B = N + M samples (N labelled first), D features, C = C_l + C_u classes.

Deviation: in RotNet, see its stage. Neighbours come from the memory alone, so that targets sum to one; the
published code lets the other view rank among them, and then they sum to less. L_ncl waits for the
second epoch, as there, and until its memory is full, which on the benchmarks it is by then. A remembered
image has the same labelled partners for all samples of a step. Hard negatives are part of the paper's method
and so are on, except for CIFAR10, where they are known to collapse at times.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.config import Cosine, Count, NonNegative, Positive, PositiveFloat, Share, setting
from newfound.core.encoder import Encoder
from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.losses.contrastive import class_contrast, hardest_mixtures, mixtures, neighbour_contrast
from newfound.losses.joint_training import joint_training
from newfound.losses.ramp import ramp_up
from newfound.nn.heads import LinearHead
from newfound.nn.memory import Memory
from newfound.pseudo.pairs import cosine_above
from newfound.stages.presets import RS_CIFAR, RS_CIFAR100, RS_DIGITS, RS_IMAGENET_VIEWS, RS_OWN, RS_SCHEDULES

_CIFAR100 = RS_CIFAR100 | {"hard_negatives": 400}
_IMAGENET = RS_IMAGENET_VIEWS | {"memory": 3000, "known_memory": 30000, "hard_negatives": 400}
_FEW = {"memory": 500, "known_memory": 500}
"""Ours, for some hundreds of images: memories that an epoch fills."""


@register(
    "ncl",
    published={"cifar10": RS_CIFAR | {"farthest": 50}, "cifar100-20": _CIFAR100, "imagenet-30": _IMAGENET},
    ours={"cifar100": _CIFAR100, "digits": RS_DIGITS | _FEW, "own": RS_OWN | _FEW},
    variations={"hard-negatives": {"hard_negatives": 400}, "no-hard-negatives": {"hard_negatives": 0}},
)
class NCL(Method):
    """RS with pairs of similar features, and contrasts with memories of unlabelled and labelled images."""

    views = Views(large=2)
    schedules = RS_SCHEDULES

    @dataclass(frozen=True)
    class Config:
        similarity: Cosine = setting(0.95, "cosine of two images above which they are a pair")
        consistency: NonNegative = setting(5.0, "weight of the agreement between views, fully ramped")
        rampup: Count = setting(50, "epochs until then")
        contrast: NonNegative = setting(1.0, "weight of the contrast of unlabelled images")
        known_contrast: NonNegative = setting(0.1, "weight of the contrast of labelled images")
        tau: PositiveFloat = setting(0.05, "temperature of both contrasts")
        memory: Positive = setting(2000, "unlabelled images that are remembered")
        known_memory: Positive = setting(2000, "labelled images that are remembered")
        neighbours: Count = setting(
            0, "remembered images that an unlabelled one is drawn to; 0: half of an average novel class"
        )
        own_share: Share = setting(
            0.2, "weight of an unlabelled image's other view among all that it is drawn to"
        )
        hard_negatives: Count = setting(0, "mixtures that an unlabelled image is driven away from; 0: none")
        hard_from: Count = setting(3, "first epoch with hard negatives, counted from 0")
        farthest: Positive = setting(400, "remembered images, farthest from an image, that are mixed for it")
        partners: Positive = setting(5, "labelled images that each of them is mixed with, in two ways")

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.h = LinearHead(encoder.dim, task.num_known)
        self.g = LinearHead(encoder.dim, task.num_novel)
        self.memory = Memory(config.memory, encoder.dim)
        self.known_memory = Memory(config.known_memory, encoder.dim)
        self.known_labels = Memory(config.known_memory)
        self.known_labels.rows.fill_(-1)
        self.neighbours = min(config.neighbours or -(-config.memory // (2 * task.num_novel)), config.memory)
        self.farthest = min(config.farthest, config.memory)

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        z = self.encode(batch.views)
        unit = F.normalize(z.float(), dim=-1)
        out = {"unit": unit, "known": self.h(z), "novel": self.g(z), **self._remembered()}
        self._remember(unit[0], batch)
        return out

    def _remembered(self) -> Outputs:
        """What the loss compares with: copies, since backward needs them after the memories moved on."""
        known = self.known_memory.snapshot
        out = {
            "memory": self.memory.snapshot,
            "full": self.memory.is_full,
            "known_memory": known,
            "known_labels": self.known_labels.snapshot,
        }
        if self.config.hard_negatives:
            shape = (self.config.partners, self.config.memory)
            out["mixed"] = mixtures(
                out["memory"], known, torch.randint(len(known), shape, device=known.device)
            )
        return out

    def _remember(self, q: Tensor, batch: Batch) -> None:
        N = batch.num_labelled
        self.memory.put(q[N:])
        self.known_memory.put(q[:N])
        self.known_labels.put(batch.labels)

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        c, N = self.config, batch.num_labelled
        q, k = out["unit"][0], out["unit"][1].detach()
        similar = cosine_above(q[N:], c.similarity)
        agreement = ramp_up(clock, c.rampup) * c.consistency
        neighbourhood = neighbour_contrast(
            q[N:],
            k[N:],
            out["memory"],
            self._negatives(q[N:], out, clock),
            neighbours=self.neighbours,
            own_share=c.own_share,
            tau=c.tau,
        )
        same_class = class_contrast(
            q[:N], k[:N], out["known_memory"], batch.labels, out["known_labels"], c.tau
        )
        return {
            **joint_training(out["known"], out["novel"], batch.labels, similar, agreement),
            "contrast": ((clock.epoch > 0) & out["full"]) * c.contrast * neighbourhood,
            "known_contrast": c.known_contrast * same_class,
        }

    def _negatives(self, q: Tensor, out: Outputs, clock: Clock) -> Tensor:
        """(M, D) → cosines with hard negatives (M, n); -inf, which is none, until their first epoch."""
        c = self.config
        if not c.hard_negatives:
            return q[:, :0]
        count = min(c.hard_negatives, len(out["mixed"]) * self.farthest)
        hardest = hardest_mixtures(q, out["memory"], out["mixed"], self.farthest, count)
        return torch.where(clock.epoch >= c.hard_from, hardest, -torch.inf)

    def scores(self, images: Tensor) -> Tensor:
        z = self.encoder(images)
        return torch.cat([self.h(z), self.g(z)], -1)[None]
