"""Ctrl-C before a verb has begun."""

import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from newfound.cli.interrupt import begin_imports, end_imports
from tests.cli.conftest import Finished

PRESS = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('went on')"


@pytest.mark.parametrize("ignored", [False, True], ids=["as usual", "where it is ignored"])
def test_it_leaves_at_once_with_one_line(ignored: bool) -> None:
    before = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); " if ignored else ""
    script = f"{before}from newfound.cli.interrupt import begin_imports; begin_imports(); {PRESS}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    expected = (0, "went on\n", "") if ignored else (130, "", "error: stopped by Ctrl-C\n")
    assert (done.returncode, done.stdout, done.stderr) == expected


def test_while_modules_are_imported() -> None:
    """Of a verb that needs torch, which takes more than a second."""
    call = [sys.executable, "-m", "newfound", "classes", "nowhere"]
    program = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "libtorch" not in Path(f"/proc/{program.pid}/maps").read_text():
        assert program.poll() is None
        time.sleep(0.01)
    program.send_signal(signal.SIGINT)
    assert program.communicate() == ("", "error: stopped by Ctrl-C\n")
    assert program.returncode == 130


def test_a_page_that_is_served_ends(own_run: Finished) -> None:
    call = [sys.executable, "-u", "-m", "newfound", "review", str(own_run.path)]
    program = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert program.stdout is not None
    while not (line := program.stdout.readline()).startswith("open http"):
        assert line, program.communicate()
    with urllib.request.urlopen(line.split()[1]) as answer:
        assert b"novel-1" in answer.read()
    program.send_signal(signal.SIGINT)
    out, err = program.communicate()
    assert (program.returncode, err) == (0, "")
    assert "ended; newfound classes" in out


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
