"""The training loop: a generator of epoch records, so that the caller evaluates, saves, reports or stops."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import torch

from newfound.core.config import TrainConfig
from newfound.core.errors import RunError
from newfound.core.learner import Bank, Learner
from newfound.core.seed import derive
from newfound.data.loader import Loader
from newfound.engine.device import gentler
from newfound.engine.patience import Patience
from newfound.engine.schedule import learning_rate
from newfound.engine.step import Extra, Mode, Step, learner_optimiser, set_learning_rate


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
        """The head of lowest loss: chosen without a label."""
        return lowest(self.head_losses)


def lowest(losses: Sequence[float]) -> int:
    """Where the lowest loss is; 0 where there is none."""
    return min(range(len(losses)), key=losses.__getitem__, default=0)


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
        say: Callable[[str], None] = print,
    ) -> None:
        self.learner, self.loader, self.train, self.bank = learner, loader, train, bank
        self.optimiser = learner_optimiser(learner, train)
        self.step = Step(
            learner,
            loader,
            self.optimiser,
            precision=precision,
            mode=mode,
            extra=extra,
            say=say,
        )

    def run(self, first_epoch: int = 0) -> Iterator[EpochRecord]:
        """Train from `first_epoch` to the end, a record after each epoch."""
        if first_epoch == 0:
            torch.manual_seed(derive(self.loader.seed, self.loader.stage, "begin"))
            self.learner.begin(self.bank)
            self.learner.after_step()
        steps = (self.train.epochs - first_epoch) * self.loader.steps
        patience = Patience(self.loader.stage, steps, self.step.say)
        for epoch in range(first_epoch, self.train.epochs):
            yield self._epoch(epoch, patience if epoch == first_epoch else lambda done: None)

    def _epoch(self, epoch: int, after_step: Callable[[int], None]) -> EpochRecord:
        start = time.perf_counter()
        lr = learning_rate(epoch, self.train)
        set_learning_rate(self.optimiser, lr)
        torch.manual_seed(derive(self.loader.seed, self.loader.stage, epoch, "learner"))
        self.learner.train()
        self.step.reset(epoch)
        for done, (draw, following) in enumerate(pairwise(chain(self.loader.draws(epoch), [None])), 1):
            assert draw is not None
            self.step(draw, following)
            after_step(done)
        sums = {name: value.cpu() for name, value in self.step.sums.items()}
        losses = {name: value.mean().item() / self.loader.steps for name, value in sums.items()}
        self._check(epoch, losses)
        self.learner.after_epoch(self.bank, self.step.clock)
        heads = sum((value for value in sums.values() if value.ndim), torch.zeros(1))
        compiling = self.step.take_compile_seconds()
        seconds = time.perf_counter() - start - compiling
        return EpochRecord(
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

    def _check(self, epoch: int, losses: dict[str, float]) -> None:
        bad = [f"{name} = {value}" for name, value in losses.items() if not math.isfinite(value)]
        # The losses are those before the last update: the weights after it must be good as well.
        if (
            not bad
            and not torch.stack([w.isfinite().all() for w in self.learner.state_dict().values()]).all()
        ):
            bad = ["weights that are not"]
        if bad:
            raise RunError(
                f"the loss must stay finite; got {', '.join(bad)} in epoch {epoch + 1} of "
                f"{self.loader.stage}; the last good checkpoint is kept; start again with "
                f"{gentler(self.step.precision)}, or with settings nearer to the usual ones"
            )
