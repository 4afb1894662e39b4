"""Joint: representation learning and category discovery in one stage (Jia et al., ICCV 2021).

    L = CE(h, y) + BCE(<g(x_i), g(x_j')>, s_ij) + L_con + w(t) [MSE(h(x), h(x')) + MSE(g(x), g(x'))]

s_ij = 1 iff at least mu winner-take-all hashes of the features of i and j agree; w(t) = weight * r(t), r the
sigmoid ramp. L_con attracts each view of an image to its other view and, if it is labelled, to its class in
the batch, and repels it from all else. A hash is the position of the largest among a few features, the same
few for all images, drawn once. There is no pretraining.

Shapes: V = 2 views, B = N + M samples (N labelled first), D features, C = C_l + C_u classes.

Deviation: no code was released. L_con acts on a projection of the features (linear, ReLU, linear), not on the
features themselves, whose largest entries should separate classes, not images. mu is the threshold with the
best F1 on labelled pairs, chosen after each epoch on images without augmentation; we know of no verified
value (agreement=240 is from memory). Schedule, augmentation, temperature and weights are ours, after RS and
common contrastive practice.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.core.encoder import Encoder
from newfound.core.errors import UsageError
from newfound.core.learner import Bank, Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import (
    Count,
    NonNegative,
    Positive,
    PositiveFloat,
    TrainConfig,
    TwoOrMore,
    setting,
)
from newfound.losses.pairs import joint_training
from newfound.losses.prediction import ramp_up
from newfound.nn.heads import LinearHead

_CIFAR100 = {"consistency": 50.0, "rampup": 150}


@register(
    "joint",
    ours={
        "cifar10": {},
        "cifar100": _CIFAR100,
        "imagenet-30": {
            "consistency": 10.0,
            "epochs": 90,
            "batch_size": 512,
            "labelled_share": "three-quarters",
        },
        # docs/lab-notes.md says how tau was chosen.
        "digits": {
            "tau": 0.5,
            "epochs": 40,
            "batch_size": 64,
            "warmup": 2,
            "rampup": 10,
            "hidden": 128,
            "projection": 64,
        },
        "own": {},
    },
)
class Joint(Method):
    """Labels for h, pair labels from hashed features for g, and a contrastive loss, from scratch."""

    views = Views(large=2)
    schedules = {"discover": TrainConfig(epochs=200, batch_size=256)}

    @dataclass(frozen=True)
    class Config:
        consistency: NonNegative = setting(5.0, "consistency weight after the ramp")
        rampup: Count = setting(50, "epochs of the consistency ramp")
        contrast: NonNegative = setting(1.0, "weight of the contrastive loss")
        tau: PositiveFloat = setting(0.1, "temperature of the contrastive loss")
        hidden: Positive = setting(512, "hidden width of the projector")
        projection: Positive = setting(128, "output dimensions of the projector")
        hashes: Positive = setting(512, "hashes per image")
        window: TwoOrMore = setting(4, "features that a hash compares")
        agreement: Count = setting(
            0, "minimum number of hashes that the images of a pair share; 0: chosen by F1 on labelled pairs"
        )
        calibration: TwoOrMore = setting(
            2000, "labelled images used to choose the agreement after each epoch"
        )

    windows: Tensor
    mu: Tensor

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        _check_most("window", config.window, encoder.dim, "features of the encoder")
        _check_most("agreement", config.agreement, config.hashes, "hashes")
        self.h = LinearHead(encoder.dim, task.num_known)
        self.g = LinearHead(encoder.dim, task.num_novel)
        self.projector = nn.Sequential(
            nn.Linear(encoder.dim, config.hidden),
            nn.ReLU(inplace=True),
            nn.Linear(config.hidden, config.projection),
        )
        permutations = torch.rand(config.hashes, encoder.dim).argsort(1)
        self.register_buffer("windows", permutations[:, : config.window].contiguous())
        self.register_buffer("mu", torch.tensor(config.agreement or config.hashes))

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        z = self.encode(batch.views)
        return {
            "features": z,
            "known": self.h(z),
            "novel": self.g(z),
            "projected": F.normalize(self.projector(z).float(), dim=-1),
        }

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        c, N = self.config, batch.num_labelled
        same = wta_agreement(out["features"][0, N:], self.windows) >= self.mu
        agreement = ramp_up(clock, c.rampup) * c.consistency
        # Each class is a group, and so is each unlabelled image.
        alone = torch.arange(len(same), device=same.device) + self.task.num_known
        groups = torch.cat([batch.labels, alone]).repeat(2)
        return {
            **joint_training(out["known"], out["novel"], batch.labels, same, agreement),
            "contrast": c.contrast * group_contrast(out["projected"].flatten(0, 1), groups, c.tau),
        }

    def begin(self, bank: Bank) -> None:
        self._calibrate(bank)

    def after_epoch(self, bank: Bank, clock: Clock) -> None:
        self._calibrate(bank)

    def _calibrate(self, bank: Bank) -> None:
        """Choose mu, above the number of hashes that agree by chance, unless it is given."""
        c = self.config
        if c.agreement:
            return
        rows = torch.randperm(len(bank.labels), device=bank.labels.device)[: c.calibration]
        agreement = wta_agreement(bank.labelled(self.encoder, rows), self.windows)
        self.mu.copy_(best_agreement(agreement, bank.labels[rows], least=c.hashes // c.window + 1))

    def scores(self, images: Tensor) -> Tensor:
        z = self.encoder(images)
        return torch.cat([self.h(z), self.g(z)], -1)[None]


def _check_most(setting: str, given: int, most: int, what: str) -> None:
    if given > most:
        raise UsageError(f"Setting {setting!r} must be at most {most}, the number of {what}, got {given}.")


def group_contrast(z: Tensor, groups: Tensor, tau: float) -> Tensor:
    """Unit rows (n, D) and their groups (n,) → mean cross-entropy of a row's group among all other rows.

    Every group must have two rows: the positives of a row are the others of its group, equally weighted.
    """
    cosines = z @ z.mT / tau
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    positive = (groups[:, None] == groups) & ~itself
    attracted = (cosines * positive).sum(1) / positive.sum(1)
    return (cosines.masked_fill(itself, -torch.inf).logsumexp(1) - attracted).mean()


@torch.no_grad()
def wta_agreement(features: Tensor, windows: Tensor) -> Tensor:
    """Winner-take-all hashing: (M, D) → (M, M), the number of windows in which the same feature wins.

    `windows` (H, w) are positions of features, each window the first w of a permutation; a product of one-hot
    winners counts the agreements.
    """
    winners = features[:, windows].argmax(2, keepdim=True)
    codes = (winners == torch.arange(windows.shape[1], device=windows.device)).flatten(1).float()
    return codes @ codes.mT


@torch.no_grad()
def best_agreement(agreement: Tensor, labels: Tensor, least: int) -> Tensor:
    """Agreements (n, n) of labelled samples → the threshold, at least `least`, whose pairs have the best F1.

    Ties go to the highest threshold, even if no two samples share a class.
    """
    first, second = torch.triu_indices(len(labels), len(labels), 1, device=labels.device)
    counts = agreement[first, second].long()
    is_pair = labels[first] == labels[second]
    most = int(agreement.max())
    found, right = (_at_least(selected, most) for selected in (counts, counts[is_pair]))
    f1 = 2 * right / (found + is_pair.sum()).clamp(min=1)
    return most - f1[least:].flip(0).argmax()


def _at_least(counts: Tensor, most: int) -> Tensor:
    """How many counts are at least 0, 1, ..., `most`."""
    return counts.bincount(minlength=most + 1).flip(0).cumsum(0).flip(0)
