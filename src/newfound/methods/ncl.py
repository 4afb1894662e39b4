"""NCL: neighbourhood contrastive learning (Zhong et al., CVPR 2021).

    L = CE(h, y) + BCE(<g(x_i), g(x_j')>, s_ij) + w(t) [MSE(h(x), h(x')) + MSE(g(x), g(x'))]
        + L_ncl(unlabelled) + 0.1 L_scl(labelled)

s_ij = 1 iff the cosine of the features of i and j is above 0.95; w(t) = weight * r(t), r the sigmoid ramp.
L_ncl attracts an image to its other view and its nearest neighbours in a memory of unlabelled images, L_scl
to its other view and its class in a memory of labelled ones; both repel it from the rest. Hard negatives are
mixtures of distant unlabelled images in the memory with labelled ones; the nearest mixtures are used.

Shapes: V = 2 views, B = N + M samples (N labelled first), D features, C = C_l + C_u classes.

Deviation: in RotNet, see its stage. Neighbours come from the memory only, so that targets sum to one; in the
published code the other view may be one of them, and then they sum to less. L_ncl starts in the second epoch,
as published, but not before its memory is full; on the benchmarks it is full by then. An image in the memory
has the same labelled partners for all samples of a step. Hard negatives are part of the paper's method and
thus on, except for CIFAR10, where training with them is known to collapse at times.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import Cosine, Count, NonNegative, Positive, PositiveFloat, Share, setting
from newfound.losses.pairs import joint_training
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
from newfound.nn.memory import Memory

_CIFAR100 = RS_CIFAR100 | {"hard_negatives": 400}
_IMAGENET = RS_IMAGENET_VIEWS | {"memory": 3000, "known_memory": 30000, "hard_negatives": 400}
_FEW = {"memory": 500, "known_memory": 500}
"""Ours, for some hundreds of images: memories that one epoch fills."""


@register(
    "ncl",
    published={"cifar10": RS_CIFAR | {"farthest": 50}, "cifar100-20": _CIFAR100, "imagenet-30": _IMAGENET},
    ours={
        "cifar100": _CIFAR100,
        "digits": RS_DIGITS | _FEW,
        "own": RS_OWN | _FEW,
        "vectors": RS_VECTORS | _FEW | {"rampup": 10},
    },
    variations={"hard-negatives": {"hard_negatives": 400}, "no-hard-negatives": {"hard_negatives": 0}},
)
class NCL(Method):
    """RS with pairs by cosine, and contrastive losses on memories of unlabelled and labelled images."""

    views = Views(large=2)
    schedules = RS_SCHEDULES

    @dataclass(frozen=True)
    class Config:
        similarity: Cosine = setting(0.95, "minimum cosine of the images of a pair")
        consistency: NonNegative = setting(5.0, "consistency weight after the ramp")
        rampup: Count = setting(50, "epochs of the consistency ramp")
        contrast: NonNegative = setting(1.0, "weight of the contrastive loss of unlabelled images")
        known_contrast: NonNegative = setting(0.1, "weight of the contrastive loss of labelled images")
        tau: PositiveFloat = setting(0.05, "temperature of both contrastive losses")
        memory: Positive = setting(2000, "memory size: unlabelled images")
        known_memory: Positive = setting(2000, "memory size: labelled images")
        neighbours: Count = setting(
            0, "nearest neighbours that are positives; 0: half of an average novel class"
        )
        own_share: Share = setting(0.2, "weight of the other view among the positives")
        hard_negatives: Count = setting(0, "hard negatives per unlabelled image; 0: none")
        hard_from: Count = setting(3, "first epoch with hard negatives, counted from 0")
        farthest: Positive = setting(400, "most distant images in the memory, mixed into hard negatives")
        partners: Positive = setting(5, "labelled images that each of these is mixed with, in two ratios")

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
        """Copies of the memories for the loss, since backward runs after they are updated."""
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
        """(M, D) → cosines with hard negatives (M, n); -inf (no negative) until their first epoch."""
        c = self.config
        if not c.hard_negatives:
            return q[:, :0]
        count = min(c.hard_negatives, len(out["mixed"]) * self.farthest)
        hardest = hardest_mixtures(q, out["memory"], out["mixed"], self.farthest, count)
        return torch.where(clock.epoch >= c.hard_from, hardest, -torch.inf)

    def scores(self, images: Tensor) -> Tensor:
        z = self.encoder(images)
        return torch.cat([self.h(z), self.g(z)], -1)[None]


@torch.no_grad()
def cosine_above(features: Tensor, threshold: float) -> Tensor:
    """(M, D) → (M, M), whether the cosine of both is higher than `threshold`."""
    unit = F.normalize(features.float(), dim=1)
    return unit @ unit.mT > threshold


def class_contrast(
    q: Tensor, k: Tensor, memory: Tensor, labels: Tensor, memory_labels: Tensor, tau: float
) -> Tensor:
    """Unit rows (N, D) of two views, a memory (K, D) and the labels of both → mean cross-entropy.

    Positives, equally weighted, are the other view and all rows of the same class in the memory.
    """
    own, remembered = _similarities(q, k, memory, tau)
    same = labels[:, None] == memory_labels
    attracted = (own + (remembered * same).sum(1)) / (1 + same.sum(1))
    return (torch.cat([own[:, None], remembered], 1).logsumexp(1) - attracted).mean()


def neighbour_contrast(
    q: Tensor, k: Tensor, memory: Tensor, negatives: Tensor, *, neighbours: int, own_share: float, tau: float
) -> Tensor:
    """Unit rows (M, D) of two views and a memory (K, D) → mean cross-entropy.

    Positives are the other view, with weight `own_share`, and the nearest rows of the memory, which share the
    rest. `negatives` (M, n) are cosines of q with further negatives; n may be 0, and -inf is no negative.
    """
    own, remembered = _similarities(q, k, memory, tau)
    nearest = remembered.topk(neighbours, dim=1).values.mean(1)
    everything = torch.cat([own[:, None], remembered, negatives / tau], 1)
    return (everything.logsumexp(1) - own_share * own - (1 - own_share) * nearest).mean()


def _similarities(q: Tensor, k: Tensor, memory: Tensor, tau: float) -> tuple[Tensor, Tensor]:
    """Scaled similarities (n,) with the other view and (n, K) with the memory."""
    return (q * k).sum(1) / tau, q @ memory.mT / tau


def mixtures(unlabelled: Tensor, labelled: Tensor, partners: Tensor) -> Tensor:
    """Rows (K, D), rows (L, D) and `partners` (R, K) among the latter → (2R, K, D), of unit length.

    Each row is mixed with each of its partners in the ratios 2 : 1 and 1 : 2. A mixture is of no class, but
    close to novel ones.
    """
    mates = labelled[partners]
    return F.normalize(torch.cat([2 * unlabelled + mates, unlabelled + 2 * mates]), dim=-1)


def hardest_mixtures(q: Tensor, memory: Tensor, mixed: Tensor, farthest: int, count: int) -> Tensor:
    """Samples (M, D), rows (K, D) and their mixtures (R, K, D) → cosines with the nearest (M, count).

    A sample sees only mixtures of the `farthest` rows from it, which are unlikely to be of its class.
    """
    far = (q @ memory.mT).topk(farthest, dim=1, largest=False).indices
    cosines = (q @ mixed.flatten(0, 1).mT).view(len(q), *mixed.shape[:2])
    of_far = cosines.gather(2, far[:, None].expand(-1, len(mixed), -1))
    return of_far.flatten(1).topk(count, dim=1).values
