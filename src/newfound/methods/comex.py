"""ComEx: compositional experts for generalised novel class discovery (Yang et al., CVPR 2022).

    L = (L_CE + L_over) / 2 + (L_CE' + L_over') / 2 + weight * (|b_novel| + |n_known| + |n_over_known|) / 3

Two groups of experts, each over all classes. Class-wise: h for the known and g for the novel ones, as in UNO;
their losses are L_CE and L_over. Batch-wise: b, trained on labelled samples only, and n, trained on
unlabelled ones; their losses have a prime. The norms penalise b's novel and n's known logits, so that the
logits of all experts can be added at test time, when it is unknown which set an image belongs to.

A target is the mean of Sinkhorn's assignments of both groups, mixed with the targets of neighbours in a
memory of recent batches once it is full, and sharpened.

Shapes: V views (L large first), K heads, B = N + M samples (N labelled first), D features,
C = C_l + C_u classes, d projected dimensions.

`logits`, which the constraints use, are the class-wise ones. The norms are Frobenius norms of whole tensors,
as published: they grow with the square root of the batch size, and b counts once per head. Scores among the
novel classes alone leave b out, since it was never trained on their samples.

Deviation: given UNO's checkpoints, the published code silently starts with a random known-class head, since
it expects another name; here h is loaded. b starts fresh in both. The best head is the one with the lowest
loss; the published code always uses the first. Among all classes every expert counts once; the published code
adds in place, so that the known logits of a known image contain b twice and the novel ones of a novel image n
twice, which reveals the set. BatchNorm of the encoder sees all crops of one size together. Targets have no
gradient; in the published code they reach the features through the neighbours and the sharpening.

The memory stores Sinkhorn's targets. Clustering and over-clustering have separate memories. Every expert sees
all samples but is trained and penalised on its own ones. b has no over-clusters; their logits are 0.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import (
    Count,
    NonNegative,
    Positive,
    PositiveFloat,
    Share,
    TrainConfig,
    TwoOrMore,
    setting,
)
from newfound.losses.prediction import swapped_cross_entropy
from newfound.methods._recipes import DIGITS, IMAGENET, OWN, VECTORS, WITH_CONSTRAINTS
from newfound.nn.heads import CosineHead, MultiHead, joint_logits
from newfound.nn.memory import Memory
from newfound.pseudo.sinkhorn import joint_targets, sinkhorn


@register(
    "comex",
    published={
        **{name: {} for name in ("cifar10", "cifar100-20", "cifar100-50")},
        "imagenet-30": IMAGENET | {"batch_size": 256, "batch_experts": False},
    },
    ours={
        "digits": DIGITS | {"augmentation": "v2", "pretrain.augmentation": "v2"},
        "own": OWN,
        "vectors": VECTORS,
    },
    variations=WITH_CONSTRAINTS,
)
class ComEx(Method):
    """Class-wise and batch-wise experts with common pseudo-labels."""

    joint = True
    schedules = {
        "pretrain": TrainConfig(augmentation="v1"),
        "discover": TrainConfig(epochs=200, batch_size=256, lr=0.2, weight_decay=1.5e-4, augmentation="v1"),
    }

    @dataclass(frozen=True)
    class Config:
        batch_experts: bool = setting(True, "whether to add batch-wise experts")
        regulariser: NonNegative = setting(1.0, "weight of the norm penalty on batch-wise experts")
        memory_size: Positive = setting(500, "memory size: unlabelled samples per view and head")
        neighbours: Share = setting(0.5, "weight of the neighbours in a target; the rest is Sinkhorn's")
        neighbour_tau: PositiveFloat = setting(0.1, "softmax temperature of the neighbour weights")
        sharpening: PositiveFloat = setting(0.5, "temperature of the sharpened targets; 1: no sharpening")
        tau: PositiveFloat = setting(0.1, "softmax temperature")
        sinkhorn_eps: PositiveFloat = setting(0.05, "Sinkhorn regularisation; larger: smoother pseudo-labels")
        heads: Positive = setting(4, "clustering heads per group, and as many over-clustering heads")
        overcluster: Positive = setting(3, "over-clusters per novel class")
        hidden: Positive = setting(2048, "hidden width of the projectors")
        projection: Positive = setting(256, "output dimensions of the projectors")
        large_crops: TwoOrMore = setting(2, "full-size crops per image, which predict each other")
        small_crops: Count = setting(0, "small crops per image")

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        C_u, over = task.num_novel, task.num_novel * config.overcluster
        width = (config.heads, config.hidden, config.projection)
        self.h = CosineHead(encoder.dim, task.num_known)
        self.g = MultiHead(encoder.dim, C_u, *width)
        self.o = MultiHead(encoder.dim, over, *width)
        if config.batch_experts:
            self.b = CosineHead(encoder.dim, task.num_classes)
            self.n = MultiHead(encoder.dim, task.num_classes, *width)
            self.n_over = MultiHead(encoder.dim, task.num_known + over, *width)
        remembered = (config.memory_size, config.large_crops, config.heads)
        self.memory = Memory(*remembered, config.projection + C_u)
        self.memory_over = Memory(*remembered, config.projection + over)

    @property
    def views(self) -> Views:
        return Views(self.config.large_crops, self.config.small_crops)

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        N, C_l = batch.num_labelled, self.task.num_known
        z = self.encode(batch.views)
        known, (g, g_at), (o, o_at) = self.h(z), self.g.located(z), self.o.located(z)
        out = {"logits": joint_logits(known, g), "over": joint_logits(known, o)}
        novel, over = [(g, g_at)], [(o, o_at)]
        if self.config.batch_experts:
            (n, n_at), (n_over, n_over_at) = self.n.located(z), self.n_over.located(z)
            out |= {"b": self.b(z), "n": n, "n_over": n_over}
            novel.append((n[..., C_l:], n_at))
            over.append((n_over[..., C_l:], n_over_at))
        out["believed"] = self.believed(novel, self.memory, N)
        out["believed_over"] = self.believed(over, self.memory_over, N)
        return out

    @torch.no_grad()
    def believed(self, groups: list[tuple[Tensor, Tensor]], memory: Memory, N: int) -> Tensor:
        """Novel cosines (V, K, B, C) and projections (V, K, B, d) of each group → targets (L, K, M, C).

        The memory stores them as Sinkhorn returns them, before mixing.
        """
        c, L = self.config, self.views.large
        cosines, at = (torch.stack([x[:L, :, N:] for x in each]) for each in zip(*groups, strict=True))
        q = sinkhorn(cosines, c.sinkhorn_eps).mean(0)
        place = F.normalize(at.sum(0), dim=-1)
        memory.put(torch.cat([place, q], -1).permute(2, 0, 1, 3))
        seen, d = memory.snapshot.permute(1, 2, 0, 3), place.shape[-1]
        near = neighbour_targets(place, seen[..., :d], seen[..., d:], c.neighbour_tau)
        mixed = sharpened(q.lerp(near, c.neighbours), c.sharpening)
        return torch.where(memory.is_full, mixed, q)

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        c, C_l = self.config, self.task.num_known
        targets, over_targets = (
            joint_targets(batch.labels, out[key], C_l) for key in ("believed", "believed_over")
        )
        ce = swapped_cross_entropy(out["logits"], targets, c.tau)
        over = swapped_cross_entropy(out["over"], over_targets, c.tau)
        losses = {"ce": ce / 2, "over": over.mean() / 2}
        return losses | self.batch_wise(out, targets, over_targets, batch) if c.batch_experts else losses

    def batch_wise(self, out: Outputs, targets: Tensor, over_targets: Tensor, batch: Batch) -> Losses:
        """Each set through its own experts; every sample has weight 1 / B, as in the class-wise losses."""
        c, C_l, N = self.config, self.task.num_known, batch.num_labelled
        labelled = N / targets.shape[2]
        b, n, n_over = out["b"][:, None, :N], out["n"][:, :, N:], out["n_over"][:, :, N:]
        b_over = F.pad(b, (0, n_over.shape[-1] - b.shape[-1]))
        b_ce = swapped_cross_entropy(b, targets[:, :1, :N], c.tau).mean()
        b_over_ce = swapped_cross_entropy(b_over, over_targets[:, :1, :N], c.tau).mean()
        n_ce = swapped_cross_entropy(n, targets[:, :, N:], c.tau)
        n_over_ce = swapped_cross_entropy(n_over, over_targets[:, :, N:], c.tau).mean()
        norms = c.heads**0.5 * b[..., C_l:].norm() + n[..., :C_l].norm() + n_over[..., :C_l].norm()
        return {
            "batch_known": labelled * (b_ce + b_over_ce) / 2,
            "batch_novel": (1 - labelled) * n_ce / 2,
            "batch_over": (1 - labelled) * n_over_ce / 2,
            "norm": c.regulariser * norms / 3,
        }

    def after_step(self) -> None:
        for expert in self.children():
            if isinstance(expert, CosineHead | MultiHead):
                expert.normalise_()

    def scores(self, images: Tensor) -> Tensor:
        return self.both_scores(images)[0]

    def both_scores(self, images: Tensor) -> tuple[Tensor, Tensor]:
        z, tau = self.encoder(images)[None], self.config.tau
        joint = joint_logits(self.h(z), self.g(z))[0] / tau
        if self.config.batch_experts:
            joint = joint + self.n(z)[0] / tau
        novel = joint[..., self.task.num_known :]
        return (joint + self.b(z) / tau if self.config.batch_experts else joint), novel


@torch.no_grad()
def neighbour_targets(features: Tensor, remembered: Tensor, targets: Tensor, tau: float) -> Tensor:
    """Unit features (..., M, D), those of a memory (..., S, D) and its targets (..., S, C) → (..., M, C).

    The mean of all stored targets, weighted by the softmax of cosine / tau; in float32 under any autocast.
    """
    with torch.autocast(features.device.type, enabled=False):
        near = (features.float() @ remembered.float().mT / tau).softmax(-1)
        return near @ targets.float()


@torch.no_grad()
def sharpened(p: Tensor, temperature: float) -> Tensor:
    """Probabilities (..., C) → p^(1 / temperature), normalised (..., C)."""
    return (p.float().log() / temperature).softmax(-1)
