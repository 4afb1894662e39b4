"""Progress events: one after each epoch and one after each trial of an estimate."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from newfound.engine.trainer import EpochRecord
from newfound.estimate.trial import Trial

log = logging.getLogger(__name__)
PAUSE = 5.0
"""Seconds between two lines of progress."""
HEADLINES = {"task_aware.train.acc": "task-aware", "generalised.train.all": "generalised"}
"""The scores that progress shows, the last one that was measured, and their names."""
ENOUGH = 3.0
"""Seconds of training after which the remaining time can be predicted."""
LONG = 60.0
"""If more seconds than this remain, they are announced."""
VERY_LONG = 1200.0
"""If more seconds than this remain, advice is given as well."""


@dataclass(frozen=True)
class Epoch:
    """An epoch has ended; `scores` is empty if it was not evaluated."""

    record: EpochRecord
    scores: Mapping[str, float]
    ahead: float = 0.0
    """The work of the following stages, in epochs of this one."""

    @property
    def seconds_left(self) -> float:
        """The predicted time to the end of the call, including later stages."""
        return (self.record.epochs - self.record.epoch - 1 + self.ahead) * self.record.seconds


@dataclass(frozen=True)
class TrialDone:
    """A trial of an estimate has ended."""

    trial: Trial
    done: int
    """How many trials are done."""
    of: int
    """How many there will be, at most."""
    seconds: float
    """How long this trial took."""


Event = Epoch | TrialDone
Watch = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Do nothing."""


def never() -> bool:
    """False: do not stop early."""
    return False


@dataclass(frozen=True)
class Control:
    """How the caller of a long task watches it, and stops it early."""

    watch: Watch
    should_stop: Callable[[], bool]


def duration(seconds: float) -> str:
    """A duration in words: `40 seconds`, `12 minutes`, `3.5 hours`."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


class Stopped(BaseException):
    """The run has stopped early, at a checkpoint."""


class LogProgress:
    """Log a line every few seconds: the time left, the losses, and ACC if there is ground truth.

    The first and the last event of a stage are always logged, and, once, the time to the end of a long call.
    """

    def __init__(self, advice: str = "") -> None:
        """`advice` says what to do if the call takes very long."""
        self._acc, self._last, self._advice = "", 0.0, advice
        self._trained, self._announced = 0.0, False

    def announce(self, event: Epoch) -> None:
        """Log the time to the end of the call as soon as it can be predicted."""
        self._trained += event.record.seconds
        if not self._announced and self._trained >= ENOUGH:
            self._announced, left = True, event.seconds_left
            advice = f"; {self._advice}" if self._advice and left > VERY_LONG else ""
            if left > LONG:
                log.info("about %s left for all stages%s", duration(left), advice)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Epoch):
            self.announce(event)
            record = event.record
            stage, done, of, seconds = record.stage, record.epoch + 1, record.epochs, record.seconds
        else:
            stage, done, of, seconds = "trial", event.done, event.of, event.seconds
        detail, now = self.detail(event), time.monotonic()
        if now - self._last >= PAUSE or done in (1, of):
            self._last = now
            log.info("%s %d/%d  %.0f s left  %s", stage, done, of, (of - done) * seconds, detail)

    def detail(self, event: Event) -> str:
        """The event in words; the last ACC is repeated until the next one is measured."""
        if isinstance(event, TrialDone):
            return str(event.trial)
        record = event.record
        for name, words in HEADLINES.items():
            if name in event.scores:
                self._acc = f"{words} train ACC {event.scores[name]:.1%} (mean of heads)  "
        acc = self._acc if record.stage == "discover" else ""
        terms = " ".join(f"{name} {value:.3f}" for name, value in record.losses.items())
        return f"{acc}{record.images_per_second:,.0f} images/s  {terms}"
