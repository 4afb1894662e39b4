"""Joint: representation learning and category discovery in one stage (Jia et al., ICCV 2021).

    L = CE(h, y) + BCE(<g(x_i), g(x_j')>, s_ij) + L_con + w(t) [MSE(h(x), h(x')) + MSE(g(x), g(x'))]

s_ij = 1 iff at least mu winner-take-all hashes of the features of i and j agree; w(t) = weight * r(t), r the
sigmoid ramp. L_con draws each view of an image to its other view and, where it is labelled, to all of its
class in the batch, away from all else. A hash is the place of the largest among a few features, the same few
for all images, drawn once. No network is trained beforehand.

Shapes: V = 2 views, B = N + M samples (N labelled first), D features, C = C_l + C_u classes.

Deviation: no code was released. L_con acts on a projection of the features, linear, ReLU, linear, and not on
the features, whose largest entries shall tell classes and not images apart. mu is the number that tells
labelled pairs of one class best (F1), found anew after each epoch on images that are not augmented; we know
of no verified one (agreement=240 is recalled).
Schedule, augmentation, temperature and weights are ours, after RS and common contrastive practice.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.core.config import Count, NonNegative, Positive, PositiveFloat, TrainConfig, TwoOrMore, setting
from newfound.core.encoder import Encoder
from newfound.core.errors import UsageError
from newfound.core.learner import Bank, Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.losses.contrastive import group_contrast
from newfound.losses.joint_training import joint_training
from newfound.losses.ramp import ramp_up
from newfound.nn.heads import LinearHead
from newfound.pseudo.pairs import best_agreement, wta_agreement

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
        # How tau was chosen: docs/lab-notes.md.
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
    """Labels for h, pair labels from hashed features for g, and one contrast for all images, from scratch."""

    views = Views(large=2)
    schedules = {"discover": TrainConfig(epochs=200, batch_size=256)}

    @dataclass(frozen=True)
    class Config:
        consistency: NonNegative = setting(5.0, "weight of the agreement between views, fully ramped")
        rampup: Count = setting(50, "epochs until then")
        contrast: NonNegative = setting(1.0, "weight of the contrast")
        tau: PositiveFloat = setting(0.1, "temperature of the contrast")
        hidden: Positive = setting(512, "width of the projection's hidden layer")
        projection: Positive = setting(128, "features that are contrasted")
        hashes: Positive = setting(512, "hashes of an image")
        window: TwoOrMore = setting(4, "features that a hash compares")
        agreement: Count = setting(
            0, "hashes that two images of a pair share at least; 0: chosen by F1 on labelled pairs"
        )
        calibration: TwoOrMore = setting(2000, "labelled images that it is chosen on after each epoch")

    windows: Tensor
    mu: Tensor

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        _check_most("window", config.window, encoder.dim, "the features of the encoder")
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
        # A class is a group, and so is each unlabelled image.
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
        """Choose mu, above what hashes agree on by chance, unless it was given."""
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
        raise UsageError(f"{setting} must be at most {what}, {most}; got {given}; lower it")
