"""What trains: a Learner has a forward and a loss; a Method is the Learner that finds the novel classes.

A pretraining stage is a Learner too. A run is a chain: each learner adopts the weights of the one before.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from newfound.core.config import TrainConfig
from newfound.core.encoder import Encoder
from newfound.core.errors import CheckpointError, shortened
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views

Uses = Literal["labelled", "unlabelled", "both"]


class Bank(Protocol):
    """The whole training set in evaluation mode, for learners that look at it between epochs."""

    labels: Tensor

    def labelled(self, function: Callable[[Tensor], Tensor], rows: Tensor | None = None) -> Tensor: ...

    def unlabelled(self, function: Callable[[Tensor], Tensor]) -> Tensor: ...


@dataclass(frozen=True)
class NoSettings:
    """The config of a learner that has none."""


class Learner(nn.Module, ABC):
    """An encoder, heads and a loss. Parameters live in `forward`; `loss` is mathematics on its outputs."""

    Config: ClassVar[type] = NoSettings
    uses: ClassVar[Uses] = "both"
    fewest: ClassVar[int] = 1
    """Images of either kind that a batch must have."""
    encodes_crop_by_crop = False

    def __init__(self, encoder: Encoder, task: Task, config: Any) -> None:
        super().__init__()
        self.encoder, self.task, self.config = encoder, task, config

    @property
    @abstractmethod
    def views(self) -> Views:
        """What the loader must prepare."""

    @abstractmethod
    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        """The only place where parameters are used in training."""

    @abstractmethod
    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        """Named terms whose means add up to what is minimised."""

    def encode(self, views: tuple[Tensor, ...]) -> Tensor:
        """One encoder call for each crop size: (V_s, B, 3, h, w) each → (V, B, D).

        Deviation: so BatchNorm sees the crops of one size together; the published codes encode one at a time,
        as norm_over=crop does.
        """
        if self.encodes_crop_by_crop:
            return torch.stack([self.encoder(crop) for crops in views for crop in crops])
        features = [self.encoder(crops.flatten(0, 1)).unflatten(0, crops.shape[:2]) for crops in views]
        return torch.cat(features)

    def begin(self, bank: Bank) -> None:
        """Before the first epoch."""

    def after_step(self) -> None:
        """After each optimiser step and once before the first; must not synchronise with the host."""

    def after_epoch(self, bank: Bank, clock: Clock) -> None:
        """After each epoch, `clock` still showing it."""

    def adopt(self, weights: Mapping[str, Tensor]) -> list[str]:
        """Take over every weight of the learner before that this one has too; list what was taken.

        The two encoders must be the same and every shape must fit; heads of the earlier stage that this
        learner does not have stay behind.
        """
        own = self.state_dict()
        missing, strange = (
            sorted(key for key in one if key.startswith("encoder.") and key not in other)
            for one, other in ((own, weights), (weights, own))
        )
        shared = sorted(key for key in weights if key in own)
        misfits = [key for key in shared if weights[key].shape != own[key].shape]
        if missing or strange or misfits:
            shapes = [f"{k} {tuple(weights[k].shape)} (need {tuple(own[k].shape)})" for k in misfits]
            raise CheckpointError(
                "the pretrained weights do not fit this encoder and task; "
                f"missing: {shortened(missing)}; unexpected: {shortened(strange)}; "
                f"of another shape: {shortened(shapes)}; pretrain with the same encoder and classes"
            )
        self.load_state_dict({key: weights[key] for key in shared}, strict=False)
        return shared


class Method(Learner):
    """A paper: its config, its heads, its loss."""

    schedules: ClassVar[Mapping[str, TrainConfig]]
    """How each stage of a run is trained, in order; the method's own comes last and is `discover`.

    The stages before it are named as they are registered; their settings are `NAME.key`.
    """
    joint = False
    """Whether scores of known and of novel classes can be compared: then an image may look known."""
    matched: ClassVar[tuple[str, ...]] = ("pretrain",)
    """The stages before it on the matched track, where all methods share the first."""

    @abstractmethod
    def scores(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) → (K, B, C) what each head says of each image at test time, known classes first.

        The softmax of a row is how sure the head is.
        """

    def both_scores(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """`scores`, and (K, B, C_u) what each head says of the same images if they are known to be novel.

        A method whose second are no part of the first gives both from one pass of the encoder.
        """
        joint = self.scores(images)
        return joint, joint[..., self.task.num_known :]
