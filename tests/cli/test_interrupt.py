"""Ctrl-C before a verb has begun."""

import signal
import subprocess
import sys

import pytest

from newfound.cli.interrupt import begin_imports, end_imports

PRESS = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('went on')"


@pytest.mark.parametrize("ignored", [False, True], ids=["as usual", "where it is ignored"])
def test_it_leaves_at_once_with_one_line(ignored: bool) -> None:
    before = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); " if ignored else ""
    script = f"{before}from newfound.cli.interrupt import begin_imports; begin_imports(); {PRESS}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    expected = (0, "went on\n", "") if ignored else (130, "", "error: stopped by Ctrl-C\n")
    assert (done.returncode, done.stdout, done.stderr) == expected


def test_then_it_is_what_it_was() -> None:
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        begin_imports()
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        end_imports()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
