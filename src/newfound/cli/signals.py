"""Stopping early: Ctrl-C, SIGTERM and --stop-after."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from threading import Thread
from types import FrameType

INTERRUPTED = 130
"""The exit code after Ctrl-C, as in shells."""
STOPPING = (signal.SIGINT, signal.SIGTERM)
_UNITS = {"s": 1, "m": 60, "h": 3600}
Handler = Callable[[int, FrameType | None], object] | int | None


def begin_imports() -> None:
    """Make Ctrl-C exit at once: some modules do not survive it while they are imported."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def end_imports() -> None:
    """Make Ctrl-C a KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def ignore_signals() -> None:
    """Leave Ctrl-C and SIGTERM to the first process, which this one follows."""
    for each in STOPPING:
        signal.signal(each, signal.SIG_IGN)


def _exit(number: int, frame: FrameType | None) -> None:
    print("Stopped by Ctrl-C.", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)


def time_after(text: str) -> float:
    """The time `90s`, `9m` or `1.5h` from now, by `time.monotonic`."""
    import typer

    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if not found:
        raise typer.BadParameter(f"{text!r} is not a time such as 90s, 9m or 1.5h.")
    return time.monotonic() + float(found[1]) * _UNITS[found[2]]


class Stopping:
    """Tells a run when to stop at a checkpoint: after a deadline, Ctrl-C, or SIGTERM, which schedulers send.

    Within the block, a second Ctrl-C stops at once; a second SIGTERM does not, since Slurm and torchrun may
    both send one. A thread listens, because Python's own handlers wait for the current operation, and a step
    of a large network can take a minute.
    """

    def __init__(self, at: float | None, resume: bool = False) -> None:
        self.at, self.interrupted = at, False
        self._asked = self._interval = 0.0
        self._again = f"Repeat the command{' with --resume' if resume else ''} to continue."
        self._before = dict[int, Handler]()

    def __call__(self) -> bool:
        now = time.monotonic()
        self._interval, self._asked = now - self._asked if self._asked else 0.0, now
        return self.interrupted or (self.at is not None and now >= self.at)

    def _soon(self) -> str:
        """When the next checkpoint is due, if that takes a while and can be told from the last two."""
        left = self._asked + self._interval - time.monotonic()
        return f", in about {left:.0f} seconds" if left >= 2 else ""

    def __enter__(self) -> "Stopping":
        self._before = {each: signal.signal(each, self._on_interrupt) for each in STOPPING}
        reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)  # as set_wakeup_fd requires
        signal.set_wakeup_fd(self._writer)
        self._listener = Thread(target=self._listen, args=[reader], daemon=True)
        self._listener.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        from newfound.cli.console import console
        from newfound.run.events import Stopped

        signal.set_wakeup_fd(-1)
        os.close(self._writer)
        self._listener.join()
        for each, handler in self._before.items():
            signal.signal(each, handler)
        if isinstance(error, Stopped):
            console().print(f"Stopped at a checkpoint. {self._again}")
            raise SystemExit(INTERRUPTED if self.interrupted else 0) from None

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = True

    def _listen(self, reader: int) -> None:
        """Read the number of each signal as it arrives, until the block ends."""
        from newfound.cli.console import console

        with open(reader, "rb", buffering=0) as signals:
            told = False
            while received := signals.read(1):
                if received[0] not in STOPPING:
                    continue
                pressed = received[0] == signal.SIGINT
                if not told:
                    told = True
                    what = f"{'Ctrl-C' if pressed else 'SIGTERM'}: stopping at the next checkpoint"
                    console().print(f"{what}{self._soon()}.{' Press it again to stop at once.' * pressed}")
                elif pressed:
                    console().show_cursor()  # which the progress bar hides
                    console().print(f"Stopped at once; the last checkpoint is kept. {self._again}")
                    os._exit(INTERRUPTED)
