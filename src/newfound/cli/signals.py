"""Stopping early: Ctrl-C and --stop-after."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType, TracebackType

from newfound.core.errors import NewfoundError

INTERRUPTED = 130
"""The exit code after Ctrl-C, as in shells."""
_UNITS = {"s": 1, "m": 60, "h": 3600}
Handler = Callable[[int, FrameType | None], object] | int | None


def begin_imports() -> None:
    """From now on Ctrl-C exits at once: some modules do not survive it during their import."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def end_imports() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(number: int, frame: FrameType | None) -> None:
    print("error: Stopped by Ctrl-C.", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)


def time_after(text: str) -> float:
    """When `90s`, `9m` or `1.5h` from now will have passed, by `time.monotonic`."""
    import typer

    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if not found:
        raise typer.BadParameter(f"{text!r} is not a time such as 90s, 9m or 1.5h.")
    return time.monotonic() + float(found[1]) * _UNITS[found[2]]


class CtrlCError(NewfoundError):
    """A person stopped the command."""

    exit_code = INTERRUPTED


class Stopping:
    """Whether to stop at the end of this epoch; within the block a second Ctrl-C stops at once."""

    def __init__(self, at: float | None, resume: bool = False) -> None:
        self.at, self.interrupted = at, False
        self._again = f"Repeat the command{' with --resume' if resume else ''} to continue."
        self._before: Handler = signal.SIG_DFL

    def __call__(self) -> bool:
        return self.interrupted or (self.at is not None and time.monotonic() >= self.at)

    def __enter__(self) -> "Stopping":
        self._before = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import typer

        from newfound.cli.console import console
        from newfound.run.events import Stopped

        signal.signal(signal.SIGINT, self._before)
        if isinstance(error, Stopped | KeyboardInterrupt):
            where = "at a checkpoint" if isinstance(error, Stopped) else "at once, with the last checkpoint"
            line = f"Stopped {where}. {self._again}"
            if not self.interrupted:
                console().print(line)
            raise (CtrlCError(line) if self.interrupted else typer.Exit()) from None

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        from newfound.cli.console import console

        self.interrupted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        console().print("Ctrl-C: stopping at the end of this epoch. Press it again to stop at once.")
