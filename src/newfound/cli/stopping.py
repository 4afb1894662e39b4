"""When a run should end early: after a given time, or on Ctrl-C."""

import re
import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import NoReturn

import typer

from newfound.cli.interrupt import INTERRUPTED
from newfound.core.errors import NewfoundError

RESUME, REPEAT = "repeat the same call with --resume to go on", "repeat the same call to go on"
"""How a run goes on: of a command that has --resume, and of one that goes on by itself."""
_UNITS = {"s": 1, "m": 60, "h": 3600}
Handler = Callable[[int, FrameType | None], object] | int | None


def time_after(text: str) -> float:
    """When `90s`, `9m` or `1.5h` from now will have passed, by `time.monotonic`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if not found:
        raise typer.BadParameter(f"must be a time such as 90s, 9m or 1.5h; got {text!r}")
    return time.monotonic() + float(found[1]) * _UNITS[found[2]]


class CtrlCError(NewfoundError):
    """A person stopped the run."""

    exit_code = INTERRUPTED


class Stopping:
    """Says whether to stop at the end of this epoch; the second Ctrl-C within the block stops at once."""

    def __init__(self, at: float | None, say: Callable[[str], None], go_on: str = REPEAT) -> None:
        self.at, self.say, self.go_on, self.interrupted = at, say, go_on, False
        self._before: Handler = signal.SIG_DFL

    def __call__(self) -> bool:
        return self.interrupted or (self.at is not None and time.monotonic() >= self.at)

    def end(self, said: str) -> NoReturn:
        """End a call that has stopped, as was asked for, or by Ctrl-C."""
        if self.interrupted:
            raise CtrlCError(said)
        self.say(said)
        raise typer.Exit

    def __enter__(self) -> "Stopping":
        self._before = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)
        if isinstance(error, KeyboardInterrupt):
            raise CtrlCError(
                "Ctrl-C came twice and stopped the run at once; what its last checkpoint holds is safe; "
                + self.go_on
            ) from None

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        self.say("Ctrl-C: stopping at the end of this epoch; once more stops at once, at the last checkpoint")
