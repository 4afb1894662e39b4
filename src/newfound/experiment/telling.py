"""What a caller in Python is told: plain lines as a run goes on, and warnings."""

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from newfound.core.errors import NewfoundError, WriteError
from newfound.core.records import OFTEN, Say
from newfound.engine.trainer import EpochRecord
from newfound.estimate.trial import Trial


def voice(verbose: bool) -> Say:
    """Lines go to standard output at once, or nowhere."""
    return partial(print, flush=True) if verbose else lambda line: None


def warn_of(lines: Iterable[str]) -> None:
    """Python's own warnings, for the caller of the function that has found them."""
    for warning in lines:
        warnings.warn(warning, stacklevel=3)


@contextmanager
def naming_arguments(again: str = "resume=True") -> Iterator[None]:
    """Errors name the arguments of Python where they name the options of the command line.

    `again` is what a call is repeated with after its run broke off.
    """
    try:
        yield
    except NewfoundError as error:
        said = str(error) + ", with --resume" * isinstance(error, WriteError)
        error.args = (said.replace("--resume", again).replace("--out", "out"),)
        raise


class Lines:
    """Tells how epochs and trials go: the time left, losses, ACC where truth is known, images/s.

    The first and the last of a stage are always told.
    """

    def __init__(self, say: Say) -> None:
        self.say, self._acc, self._said = say, "", 0.0

    def __call__(self, record: EpochRecord, scores: Mapping[str, float]) -> None:
        detail = self.detail(record, scores)
        self._tell(record.stage, record.epoch + 1, record.epochs, record.seconds, detail)

    def detail(self, record: EpochRecord, scores: Mapping[str, float]) -> str:
        """What is told of an epoch besides its number; an ACC stands until the next one."""
        if "task_aware.train.acc" in scores:
            self._acc = f"task-aware train ACC {scores['task_aware.train.acc']:.1%} (mean of heads)  "
        acc = self._acc if record.stage == "discover" else ""
        terms = " ".join(f"{name} {value:.3f}" for name, value in record.losses.items())
        return f"{acc}{record.images_per_second:,.0f} images/s  {terms}"

    def trial(self, trial: Trial, done: int, of: int, seconds: float) -> None:
        """The same of an estimate's trials."""
        self._tell("trial", done, of, seconds, trial.in_words)

    def _tell(self, stage: str, done: int, of: int, seconds: float, detail: str) -> None:
        if time.monotonic() - self._said >= OFTEN or done in (1, of):
            self._said = time.monotonic()
            self.say(f"{stage} {done}/{of}  {(of - done) * seconds:.0f} s left  {detail}")
