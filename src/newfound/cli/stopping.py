"""When a run should end early: after a given time, or on Ctrl-C."""

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from newfound.core.errors import UsageError

_UNITS = {"s": 1, "m": 60, "h": 3600}


def duration(text: str) -> float:
    """`90s`, `9m`, `1.5h` → seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if not found:
        raise UsageError(f"--stop-after must be a time such as 90s, 9m or 1.5h; got {text!r}")
    return float(found[1]) * _UNITS[found[2]]


@contextmanager
def stopping(after: float | None, say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether to stop at the end of this epoch; a second Ctrl-C stops at once."""
    end = None if after is None else time.monotonic() + after
    interrupted = False

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True
        say("Ctrl-C: stopping at the end of this epoch; once more stops at once, at the last checkpoint")

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield lambda: interrupted or (end is not None and time.monotonic() >= end)
    finally:
        signal.signal(signal.SIGINT, before)
