"""Ctrl-C while modules are imported, which some of them do not survive: it ends the program at once."""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
"""The exit code of what Ctrl-C ended, as shells have it."""


def begin_imports() -> None:
    """From now on Ctrl-C leaves at once; nothing was begun that could be lost."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def end_imports() -> None:
    """From now on Ctrl-C is what it usually is."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    print("error: stopped by Ctrl-C", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)
