"""Learners: a forward and a loss. A Method is the learner that discovers the novel classes.

Pretraining stages are learners too. A run is a chain: each learner adopts the weights of the previous one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from newfound.core import dist
from newfound.core.encoder import Encoder
from newfound.core.errors import CheckpointError, shortened
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.settings import TrainConfig
from newfound.core.source import PileKind

Uses = Literal["labelled", "unlabelled", "both"]


class Bank(Protocol):
    """The whole training set without augmentation, for learners that need it between epochs."""

    labels: Tensor

    def labelled(self, function: Callable[[Tensor], Tensor], rows: Tensor | None = None) -> Tensor: ...

    def unlabelled(self, function: Callable[[Tensor], Tensor]) -> Tensor: ...


@dataclass(frozen=True)
class NoSettings:
    """The config of a learner without settings."""


class Learner(nn.Module, ABC):
    """An encoder, heads and a loss. Only `forward` uses parameters; `loss` is a function of its outputs."""

    Config: ClassVar[type] = NoSettings
    cache_version: ClassVar[int] = 1
    """Increase it when the same training would give different weights; older cached ones are then ignored."""
    uses: ClassVar[Uses] = "both"
    fewest: ClassVar[int] = 1
    """Minimum number of images of each kind in a batch."""
    needs_maps: ClassVar[bool] = False
    """Whether it uses the encoder's trunk and last block, which not every encoder has."""
    encodes_crop_by_crop = False

    def __init__(self, encoder: Encoder, task: Task, config: Any) -> None:
        super().__init__()
        self.encoder, self.task, self.config = encoder, task, config

    @property
    @abstractmethod
    def views(self) -> Views:
        """The crops that the loader must prepare."""

    @abstractmethod
    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        """The only place where training uses parameters."""

    @abstractmethod
    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        """Named terms; the sum of their means is minimised."""

    def encode(self, views: tuple[Tensor, ...]) -> Tensor:
        """One encoder call per crop size: (V_s, b, 3, h, w) each → (V, B, D).

        With several processes, each encodes its own b rows of the batch and receives the features of all B.

        Deviation: BatchNorm therefore sees all crops of one size together. The published implementations
        encode one crop at a time, as norm_over=crop does.
        """
        if self.encodes_crop_by_crop:
            return self.whole(torch.stack([self.encoder(crop) for crops in views for crop in crops]), 1)
        features = [self.encoder(crops.flatten(0, 1)).unflatten(0, crops.shape[:2]) for crops in views]
        return self.whole(torch.cat(features), 1)

    def whole(self, part: Tensor, dim: int = 0, rows: int | None = None) -> Tensor:
        """Join what all processes computed from their crops in `batch.views`, or from their `part` of `rows`.

        With one process, this is the tensor itself. `encode` has already joined its result.
        """
        return dist.gather(part, dim, rows)

    def part(self, whole: Tensor) -> Tensor:
        """This process's part of rows to be divided among the processes."""
        return dist.share(whole, 0, len(whole))

    def begin(self, bank: Bank) -> None:
        """Called before the first epoch."""

    def after_step(self) -> None:
        """Called after each optimiser step and once before the first; must not synchronise with the host."""

    def after_epoch(self, bank: Bank, clock: Clock) -> None:
        """Called after each epoch, with the clock of that epoch."""

    def end(self, bank: Bank) -> None:
        """Called after the last epoch, or after `begin` if there is none."""

    def adopt(self, weights: Mapping[str, Tensor]) -> list[str]:
        """Load every weight of the previous learner that this one also has; return their names.

        The encoders must be identical and all shapes must match. Heads that only the previous learner has
        are dropped.
        """
        own = self.state_dict()
        missing, unexpected = (
            sorted(key for key in one if key.startswith("encoder.") and key not in other)
            for one, other in ((own, weights), (weights, own))
        )
        shared = sorted(key for key in weights if key in own)
        misfits = [key for key in shared if weights[key].shape != own[key].shape]
        if missing or unexpected or misfits:
            shapes = [f"{k} {tuple(weights[k].shape)} instead of {tuple(own[k].shape)}" for k in misfits]
            raise CheckpointError(
                "The pretrained weights do not fit this encoder and these classes. "
                f"Missing: {shortened(missing)}; unexpected: {shortened(unexpected)}; "
                f"wrong shape: {shortened(shapes)}."
            )
        self.load_state_dict({key: weights[key] for key in shared}, strict=False)
        return shared


class Method(Learner):
    """A novel class discovery method: its settings, heads, loss and scores."""

    schedules: ClassVar[Mapping[str, TrainConfig]]
    """The stages of a run in order and how each is trained; the last is the method's own, `discover`.

    The others are named as registered; their settings are `NAME.key`.
    """
    joint = False
    """Whether scores of known and novel classes are comparable, so that an image can look known."""
    made_for: ClassVar[PileKind] = "novel"
    """The kind of pile in its paper, and the default for a user's own pile."""
    mixed: ClassVar[bool] = False
    """Whether it can be used for mixed piles, where the scores of known and novel classes compete."""
    matched: ClassVar[tuple[str, ...]] = ("pretrain",)
    """The stages before discovery on the matched track; all methods share the first."""

    @abstractmethod
    def scores(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) → each head's logits at test time (K, B, C), known classes first.

        The softmax of a row is the head's confidence.
        """

    def both_scores(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """`scores`, and the logits (K, B, C_u) for images that are known to be novel.

        Override it if the second are not a slice of the first, to compute both in one encoder pass.
        """
        joint = self.scores(images)
        return joint, joint[..., self.task.num_known :]
