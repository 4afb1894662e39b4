"""DualRank: ranking statistics of the whole and of parts (Zhao and Han, NeurIPS 2021).

    L = KL(S_1, S_2) + sum over branches b of
        CE(h_b, y) + BCE(<g_b(x_i), g_b(x_j')>, s_b,ij) + w(t) [MSE(h_b(x), h_b(x')) + MSE(g_b(x), g_b(x'))]

The branches are two last blocks on one trunk, each with heads of its own. s_ij = 1 iff the k largest
entries of i and j are the same: for the global branch of its features, for the local one of the shares that
the words of a dictionary of parts have in its map. S_b is a softmax over how similar branch b finds an
unlabelled sample to itself in the other view and to samples before it; KL is the mean of both directions.
What an image is, the global branch says alone, as in the published code: the local one is there to teach it.

Shapes: V = 2 views, 2 branches (the global one first), B = N + M samples (N labelled first), D features,
C = C_l + C_u classes.

Deviation: from the published code, which is for fine-grained data alone, but not from what it describes:
there the local heads see the features of the global branch, and the local pairs compare a view with itself.
Maps of 2 x 2 cells keep their border, since nothing else would be left. The last epoch counts, where that
code keeps the one of highest accuracy on the novel classes.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.config import Count, NonNegative, Positive, PositiveFloat, setting
from newfound.core.encoder import Encoder, pooled
from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.losses.joint_training import joint_training
from newfound.losses.mutual import mutual_divergence
from newfound.losses.ramp import ramp_up
from newfound.nn.heads import LinearHead
from newfound.nn.memory import Memory
from newfound.pseudo.pairs import equal_top_k
from newfound.pseudo.parts import inner_cells, part_codes, random_cell
from newfound.stages.presets import RS_CIFAR, RS_CIFAR100, RS_DIGITS, RS_IMAGENET_VIEWS, RS_OWN, RS_SCHEDULES


@register(
    "dualrank",
    # The paper's schedules for these are not known: RS's, which it starts from.
    # How those for digits were chosen: docs/lab-notes.md.
    ours={
        "cifar10": RS_CIFAR,
        "cifar100": RS_CIFAR100,
        "imagenet-30": RS_IMAGENET_VIEWS,
        "digits": RS_DIGITS | {"top": 1, "words": 32},
        "own": RS_OWN,
    },
)
class DualRank(Method):
    """RS on features and on parts, in two branches that learn from each other."""

    views = Views(large=2)
    schedules = RS_SCHEDULES

    @dataclass(frozen=True)
    class Config:
        top: Positive = setting(5, "largest features, or words, that two images must share to be a pair")
        words: Positive = setting(2048, "cells of earlier feature maps that parts are compared with")
        sharpness: PositiveFloat = setting(15.0, "how much a part belongs to its nearest word alone")
        memory: Positive = setting(2048, "earlier samples that similarities are computed with")
        tau: PositiveFloat = setting(0.07, "temperature of the similarities")
        consistency: NonNegative = setting(5.0, "weight of the agreement between views, fully ramped")
        rampup: Count = setting(50, "epochs until then")

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
        V, B = crops.shape[:2]
        pieces = crops if self.encodes_crop_by_crop else [crops.flatten(0, 1)]
        features, parts = zip(*map(self.branches, pieces), strict=True)
        z, maps = torch.cat(features, 1), torch.cat(parts)
        z, known, novel = (rows.view(2, V, B, -1).transpose(0, 1) for rows in (z, *self.logits(z)))
        out = {
            "features": z,
            "known": known,
            "novel": novel,
            "codes": self.codes(inner_cells(maps[:B]), N),
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
        """(2, n, D) → (2, n, C_l) and (2, n, C_u), each branch through its own heads."""
        known = torch.stack([self.h(z[0]), self.local_h(z[1])])
        novel = torch.stack([self.g(z[0]), self.local_g(z[1])])
        return known.float(), novel.float()

    def codes(self, cells: Tensor, N: int) -> Tensor:
        """(B, L, D) → (M, words) of the unlabelled samples; then every sample adds a word."""
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
        """Both branches start from the one that was trained on the known classes."""
        taken = super().adopt(weights)
        if not any(key.startswith("local.") for key in taken):
            self.local.load_state_dict(self.encoder.last_block.state_dict())
            self.local_h.load_state_dict(self.h.state_dict())
        return taken

    def scores(self, images: Tensor) -> Tensor:
        z = self.encoder(images)
        return torch.cat([self.h(z), self.g(z)], dim=-1).float()[None]
