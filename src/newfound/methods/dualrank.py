"""DualRank: ranking statistics of the whole image and of its parts (Zhao and Han, NeurIPS 2021).

    L = KL(S_1, S_2) + sum over branches b of
        CE(h_b, y) + BCE(<g_b(x_i), g_b(x_j')>, s_b,ij) + w(t) [MSE(h_b(x), h_b(x')) + MSE(g_b(x), g_b(x'))]

The branches are two last blocks on one trunk, each with its own heads. s_ij = 1 iff i and j have the same k
largest entries: for the global branch of the features, for the local one of the histogram of its map over a
dictionary of parts (words). S_b is branch b's softmax over the similarities of an unlabelled sample to its
other view and to earlier samples; KL is the mean of both directions. At test time the global branch alone
is scored, as in the published code: the local one only teaches it.

Shapes: V = 2 views, 2 branches (the global one first), B = N + M samples (N labelled first), D features,
C = C_l + C_u classes.

Deviation: not from the paper, but from the published code, which covers fine-grained data only: there the
local heads see the features of the global branch, and the local pairs compare a view with itself. Maps of
2 x 2 cells keep their border, since they have no interior. The last epoch is kept, where that code keeps the
one with the highest accuracy on the novel classes.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.encoder import Encoder, pooled
from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import Count, NonNegative, Positive, PositiveFloat, setting
from newfound.losses.divergence import view_symmetric_kl
from newfound.losses.pairs import equal_top_k, joint_training
from newfound.losses.prediction import ramp_up
from newfound.methods._recipes import (
    RS_CIFAR,
    RS_CIFAR100,
    RS_DIGITS,
    RS_IMAGENET_VIEWS,
    RS_OWN,
    RS_SCHEDULES,
)
from newfound.nn.heads import LinearHead
from newfound.nn.memory import Memory

DECAY = 0.99
"""Decay per step of the running mean of the distance to the nearest word."""


@register(
    "dualrank",
    # The paper's schedules for these are unknown, so they are those of RS, which it builds on.
    # docs/lab-notes.md says how the values for digits were chosen.
    ours={
        "cifar10": RS_CIFAR,
        "cifar100": RS_CIFAR100,
        "imagenet-30": RS_IMAGENET_VIEWS,
        "digits": RS_DIGITS | {"top": 1, "words": 32},
        "own": RS_OWN,
    },
)
class DualRank(Method):
    """RS on features and on parts, in two branches with mutual distillation."""

    needs_maps = True
    views = Views(large=2)
    schedules = RS_SCHEDULES

    @dataclass(frozen=True)
    class Config:
        top: Positive = setting(5, "number of largest features, or words, that the images of a pair share")
        words: Positive = setting(2048, "dictionary size: cells of earlier feature maps")
        sharpness: PositiveFloat = setting(15.0, "sharpness of the assignment of parts to words")
        memory: Positive = setting(2048, "memory size: earlier samples that similarities refer to")
        tau: PositiveFloat = setting(0.07, "softmax temperature of the similarities")
        consistency: NonNegative = setting(5.0, "consistency weight after the ramp")
        rampup: Count = setting(50, "epochs of the consistency ramp")

    nearest: Tensor

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        dim = encoder.dim
        self.local = deepcopy(encoder.last_block)
        self.h, self.local_h = (LinearHead(dim, task.num_known) for _ in range(2))
        self.g, self.local_g = (LinearHead(dim, task.num_novel) for _ in range(2))
        self.words = Memory(config.words, dim)
        self.memory = Memory(config.memory, 2, dim)
        self.register_buffer("nearest", torch.tensor(0.5))

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        crops, N = batch.views[0], batch.num_labelled
        V, b = crops.shape[:2]
        pieces = crops if self.encodes_crop_by_crop else [crops.flatten(0, 1)]
        features, parts = zip(*map(self.branches, pieces), strict=True)
        z = self.whole(torch.cat(features, 1).view(2, V, b, -1), 2)
        cells = self.whole(inner_cells(torch.cat(parts)[:b]))
        z, known, novel = (rows.transpose(0, 1) for rows in (z, *self.logits(z)))
        out = {
            "features": z,
            "known": known,
            "novel": novel,
            "codes": self.codes(cells, N),
            "remembered": self.memory.snapshot.transpose(0, 1),
        }
        self.memory.put(F.normalize(z[1, :, N:].float(), dim=-1).transpose(0, 1))
        return out

    def branches(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """(n, 3, H, W) → features (2, n, D) and the map of the local branch (n, D, h, w)."""
        shared = self.encoder.trunk(images)
        whole, parts = self.encoder.last_block(shared), self.local(shared)
        return torch.stack([pooled(whole), pooled(parts)]), parts

    def logits(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """(2, ..., D) → (2, ..., C_l) and (2, ..., C_u), each branch through its own heads."""
        known = torch.stack([self.h(z[0]), self.local_h(z[1])])
        novel = torch.stack([self.g(z[0]), self.local_g(z[1])])
        return known.float(), novel.float()

    def codes(self, cells: Tensor, N: int) -> Tensor:
        """(B, L, D) → histograms (M, words) of the unlabelled samples; then every sample adds a word."""
        codes, nearest = part_codes(cells, self.words.snapshot, self.nearest, self.config.sharpness)
        self.nearest.copy_(nearest)
        self.words.put(random_cell(cells))
        return codes[N:]

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        c, N = self.config, batch.num_labelled
        z, known, novel = out["features"], out["known"], out["novel"]
        q, k = F.normalize(z[:, :, N:].float(), dim=-1)
        same = equal_top_k(z[0, 0, N:], c.top), equal_top_k(out["codes"], c.top)
        agreement = ramp_up(clock, c.rampup) * c.consistency
        whole, parts = (
            joint_training(known[:, b], novel[:, b], batch.labels, same[b], agreement) for b in range(2)
        )
        return {
            **whole,
            **{f"{name}_local": term for name, term in parts.items()},
            "mutual": mutual_divergence(q, k, out["remembered"], c.tau),
        }

    def adopt(self, weights: Mapping[str, Tensor]) -> list[str]:
        """Both branches start from the one trained on the known classes."""
        taken = super().adopt(weights)
        if not any(key.startswith("local.") for key in taken):
            self.local.load_state_dict(self.encoder.last_block.state_dict())
            self.local_h.load_state_dict(self.h.state_dict())
        return taken

    def scores(self, images: Tensor) -> Tensor:
        z = self.encoder(images)
        return torch.cat([self.h(z), self.g(z)], dim=-1).float()[None]


def inner_cells(maps: Tensor) -> Tensor:
    """(B, D, h, w) → cells (B, L, D) without the border, if maps have an interior; no gradient."""
    h, w = maps.shape[-2:]
    inside = maps[..., 1:-1, 1:-1] if min(h, w) > 2 else maps
    return inside.detach().flatten(2).mT.float()


@torch.no_grad()
def random_cell(cells: Tensor) -> Tensor:
    """(B, L, D) → (B, D): a random cell of each image."""
    B, L, D = cells.shape
    place = torch.randint(L, (B, 1, 1), device=cells.device)
    return cells.gather(1, place.expand(B, 1, D)).squeeze(1)


@torch.no_grad()
def part_codes(cells: Tensor, words: Tensor, nearest: Tensor, sharpness: float) -> tuple[Tensor, Tensor]:
    """Cells (B, L, D), words (S, D) → the share of each word in each image (B, S), rows that sum to 1.

    A cell is distributed over the words by softmax(- sharpness distance² / nearest). `nearest` () is a
    running mean of the squared distance to the nearest word; its updated value is returned too.
    """
    with torch.autocast(cells.device.type, enabled=False):
        lengths = cells.square().sum(-1, keepdim=True) + words.square().sum(-1)
        distances = (lengths - 2 * cells @ words.mT).clamp(min=0)
    nearest = torch.lerp(distances.amin(-1).mean(), nearest, DECAY)
    # The distance to an exact copy is 0.
    shares = (distances * (-sharpness / nearest.clamp(min=1e-6))).softmax(-1)
    return shares.mean(1), nearest


def mutual_divergence(q: Tensor, k: Tensor, memory: Tensor, tau: float) -> Tensor:
    """Unit features (2, M, D) of two views, memory (2, S, D) → symmetric KL between branches, mean over M.

    Each branch compares a sample with its other view and with its memory; both branches store the same
    samples in the same places. The memory carries no gradient.
    """
    q, others = q.float(), memory.detach().float()
    itself = (q * k.float()).sum(-1, keepdim=True)
    similar = torch.cat([itself, q @ others.mT], dim=-1)
    return view_symmetric_kl((similar / tau).log_softmax(-1)).mean()
