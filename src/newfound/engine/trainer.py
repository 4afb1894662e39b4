"""The training loop: a generator of epoch records, so that the caller evaluates, saves, reports or stops."""

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, pairwise

import torch
from torch import Tensor

from newfound.core import dist
from newfound.core.errors import RunError
from newfound.core.learner import Bank, Learner
from newfound.core.records import Losses
from newfound.core.seed import derive
from newfound.core.settings import TrainConfig
from newfound.data.loader import Loader
from newfound.engine.device import safer_settings
from newfound.engine.step import (
    GPU,
    HOST,
    Extra,
    Mode,
    Step,
    learner_optimiser,
    random_states,
    set_learning_rate,
    set_random_states,
)
from newfound.nn.norm import share_statistics

log = logging.getLogger(__name__)
FIRST_NOTICE = 10.0
"""Seconds into a stage until the time left is first logged; the interval doubles with every notice."""
GO_ON = "go on"
"""The order to continue after a pause."""
ASKED_EVERY = 2.0
"""Seconds after which several processes ask the first one whether to pause."""


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch did; the losses add up to what was minimised."""

    stage: str
    epoch: int
    epochs: int
    lr: float
    losses: dict[str, float]
    head_losses: list[float]
    seconds: float
    """Without compilation."""
    images_per_second: float
    compile_seconds: float = 0.0

    @property
    def best_head(self) -> int:
        """The head of lowest loss, chosen without labels."""
        return lowest(self.head_losses)


def lowest(losses: Sequence[float]) -> int:
    """The index of the lowest loss; 0 if there is none."""
    return min(range(len(losses)), key=losses.__getitem__, default=0)


def mean_losses(sums: Losses, steps: int) -> dict[str, float]:
    """The means of losses that were added up over `steps`."""
    return {name: value.cpu().mean().item() / steps for name, value in sums.items()}


@dataclass(frozen=True)
class Paused:
    """What is needed to continue an epoch after some of its steps."""

    epoch: int
    step: int = 0
    seconds: float = 0.0
    tensors: dict[str, Tensor] = field(default_factory=dict)
    """The sums of the losses so far, and the random states."""


class Trainer:
    """Trains one learner on one loader."""

    def __init__(
        self,
        learner: Learner,
        loader: Loader,
        train: TrainConfig,
        bank: Bank,
        *,
        precision: torch.dtype = torch.float32,
        mode: Mode = "eager",
        extra: Extra | None = None,
    ) -> None:
        self.learner, self.loader, self.train, self.bank = learner, loader, train, bank
        self._made_of = (learner, loader, train, bank), {"precision": precision, "mode": mode, "extra": extra}
        self._must_save: Callable[[], bool] = lambda: False
        self._ask_in = 1
        """The number of steps after which the first process is asked whether to pause."""
        self.optimiser = learner_optimiser(learner, train)
        self.step = Step(learner, loader, self.optimiser, precision=precision, mode=mode, extra=extra)

    def run(
        self,
        first_epoch: int = 0,
        paused: Paused | None = None,
        must_save: Callable[[], bool] = lambda: False,
        save: Callable[[Paused], None] = lambda paused: None,
    ) -> Iterator[EpochRecord]:
        """Train from `first_epoch`, or from where it was `paused`, to the end; yield a record per epoch.

        `must_save` is asked after each step, by several processes every few seconds. If it says so, `save`
        gets what is needed to continue there; it may raise to stop.
        """
        states = self.optimiser.state_dict(), self.step.scaler.state_dict()
        begun = first_epoch > 0 or paused is not None
        dist.send((self._made_of, states, begun))
        self.begin(begun)
        self._must_save = must_save
        steps = (self.train.epochs - first_epoch) * self.loader.steps
        notices = Notices(self.loader.stage, steps)
        for epoch in range(first_epoch, self.train.epochs):
            start, paused = paused or Paused(epoch), None
            dist.send(start)
            for part in self.epoch(start, notices if epoch == first_epoch else None):
                if isinstance(part, EpochRecord):
                    yield part
                else:
                    save(part)
                    dist.send(GO_ON)

    def begin(self, begun: bool) -> None:
        """Prepare the first epoch, unless it has already `begun`; called in every process."""
        if dist.world() > 1:
            share_statistics(self.learner, self.learner.encoder)
        with self._sharing():
            if not begun:
                torch.manual_seed(derive(self.loader.seed, self.loader.stage, "begin"))
                self.learner.begin(self.bank)
                self.learner.after_step()
                if not self.train.epochs:
                    self.learner.end(self.bank)

    def epoch(
        self, start: Paused, after_step: Callable[[int], None] | None = None
    ) -> Iterator[EpochRecord | Paused]:
        """Train an epoch from `start`; called in every process. Yields at each pause, and at the end."""
        parts = self._epoch(start, after_step)
        while True:
            with self._sharing():
                part = next(parts)
            yield part
            if isinstance(part, EpochRecord):
                return

    @contextmanager
    def _sharing(self) -> Iterator[None]:
        """All processes train together; at the end, differences due to rounding are removed."""
        with dist.sharing(self.loader.num_labelled, self.loader.num_unlabelled):
            yield
            dist.broadcast(self.learner.state_dict().values())

    def _epoch(
        self, paused: Paused, after_step: Callable[[int], None] | None
    ) -> Iterator[EpochRecord | Paused]:
        start, epoch, device = time.perf_counter() - paused.seconds, paused.epoch, self.loader.device
        compiling = 0.0
        lr = learning_rate(epoch, self.train)
        set_learning_rate(self.optimiser, lr)
        torch.manual_seed(derive(self.loader.seed, self.loader.stage, epoch, "learner"))
        self.learner.train()
        self.step.reset(epoch)
        if paused.step:
            set_random_states(paused.tensors, device)
            sums = {name: value for name, value in paused.tensors.items() if name not in (HOST, GPU)}
            self.step.sums = {name: value.to(device) for name, value in sums.items()}
        draws = pairwise(chain(self.loader.draws(epoch, paused.step), [None]))
        asked, ask_at = time.monotonic(), paused.step + self._ask_in
        for done, (draw, following) in enumerate(draws, paused.step + 1):
            assert draw is not None
            self.step(draw, following)
            if after_step:
                after_step(done)
            if done == ask_at < self.loader.steps:
                pause, self._ask_in = dist.agreed((self._must_save(), self._steps_to_next(asked)))
                if pause:
                    self._check(epoch, mean_losses(self.step.sums, done))
                    compiling += self.step.take_compile_seconds()
                    seconds = time.perf_counter() - start - compiling
                    yield Paused(epoch, done, seconds, self.step.sums | random_states(device))
                    start = time.perf_counter() - seconds - compiling
                asked, ask_at = time.monotonic(), done + self._ask_in
        sums = {name: value.cpu() for name, value in self.step.sums.items()}
        losses = mean_losses(sums, self.loader.steps)
        self._check(epoch, losses)
        self.learner.after_epoch(self.bank, self.step.clock)
        if epoch + 1 == self.train.epochs:
            self.learner.end(self.bank)
        heads = sum((value for value in sums.values() if value.ndim), torch.zeros(1))
        compiling += self.step.take_compile_seconds()
        seconds = time.perf_counter() - start - compiling
        yield EpochRecord(
            stage=self.loader.stage,
            epoch=epoch,
            epochs=self.train.epochs,
            lr=lr,
            losses=losses,
            head_losses=(heads / self.loader.steps).tolist(),
            seconds=seconds,
            images_per_second=(self.loader.steps - (compiling > 0)) * self.loader.batch_size / seconds,
            compile_seconds=compiling,
        )

    def _steps_to_next(self, asked: float) -> int:
        """The number of steps to the next question, from the time at which the last one was `asked`."""
        if dist.world() == 1:
            return 1
        in_time = ASKED_EVERY * self._ask_in / max(time.monotonic() - asked, 1e-9)
        return max(1, min(2 * self._ask_in, int(in_time)))

    def _check(self, epoch: int, losses: dict[str, float]) -> None:
        """Refuse what is not finite; only in the first process."""
        if dist.rank():
            return
        bad = [f"{name} = {value}" for name, value in losses.items() if not math.isfinite(value)]
        # The losses were computed before the last update, so the weights are checked too.
        finite = torch.stack([each.isfinite().all() for each in self.learner.state_dict().values()])
        if not bad and not finite.all():
            bad = ["weights that are not finite"]
        if bad:
            raise RunError(
                f"Training diverged in epoch {epoch + 1} of {self.loader.stage}: {', '.join(bad)}. The last "
                f"good checkpoint is kept; start a new run with {safer_settings(self.step.precision)}."
            )


def follow() -> None:
    """Follow the first process's orders until it leaves."""
    trainer: Trainer | None = None
    parts: Iterator[EpochRecord | Paused] = iter(())
    while (order := dist.receive()) is not None:
        if isinstance(order, tuple):
            (made_of, how), (optimiser, scaler), begun = order
            trainer = Trainer(*made_of, **how)
            trainer.optimiser.load_state_dict(optimiser)
            trainer.step.scaler.load_state_dict(scaler)
            trainer.begin(begun)
            continue
        if isinstance(order, Paused):
            assert trainer is not None
            parts = trainer.epoch(order)
        next(parts)


class Notices:
    """Logs the time left while the first epoch of a stage is running.

    The first step does not count, since it may compile. If the host runs ahead of a GPU, the epoch ends
    before the first notice.
    """

    def __init__(self, stage: str, steps: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.stage, self.steps, self.clock = stage, steps, clock
        self.began, self.wait = clock(), FIRST_NOTICE

    def __call__(self, done: int) -> None:
        now = self.clock()
        if done == 1:
            self.began = now
        elif now - self.began >= self.wait:
            self.wait *= 2
            left = (self.steps - done) * (now - self.began) / (done - 1)
            log.info("%s: step %s of %s, %.0f s left", self.stage, f"{done:,}", f"{self.steps:,}", left)


def learning_rate(epoch: int, train: TrainConfig) -> float:
    """Linear warm-up that reaches `lr` in its last epoch, then steps or a cosine down to `min_lr`.

    The warm-up takes at most half of the epochs, so that a short run reaches `lr` too.
    """
    warmup = min(train.warmup, train.epochs // 2)
    if epoch < warmup:
        return train.min_lr + (train.lr - train.min_lr) * epoch / max(warmup - 1, 1)
    if train.lr_falls:
        falls = [float(share) * train.epochs for share in train.lr_falls.split(",")]
        return train.lr * train.lr_factor ** sum(epoch >= round(fall) for fall in falls)
    progress = (epoch - warmup) / max(train.epochs - warmup, 1)
    return train.min_lr + (train.lr - train.min_lr) * (1 + math.cos(math.pi * progress)) / 2
