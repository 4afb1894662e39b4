"""A small part of the hostile campaign, and whether it would notice what it looks for."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools import hostile
from tools.hostile import Ended, Tally, break_json, forked


@pytest.mark.slow
def test_a_small_campaign_finds_nothing(tmp_path: Path) -> None:
    """In a process of its own: it forks, which hangs where torch has used threads."""
    words = [sys.executable, "-m", "tools.hostile", "--share", "0.02", "--folder", str(tmp_path / "hostile")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, trials, tracebacks, hangs, lost, executions, _ = done.stdout.splitlines()[-1].split("|")
    assert int(trials) >= 10
    assert [int(each) for each in (tracebacks, hangs, lost, executions)] == [0, 0, 0, 0]


def test_what_a_process_did_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile, "LIMIT", 0.2)
    tally = Tally("made up")
    tally.judge("fine", forked(lambda: print("done")))
    tally.judge("refused", Ended(2, "error: no.\n"))
    tally.judge("torn", forked(lambda: [][1]))
    tally.judge("hung", forked(lambda: time.sleep(9)))
    tally.judge("killed", forked(lambda: time.sleep(9), kill_after=0.01))
    tally.judge("two lines", Ended(1, "error: no.\nwhy\n"), lost=True)
    tally.judge("owned", forked(lambda: os.getpid()), executed=True)
    assert (tally.trials, tally.tracebacks, tally.hangs, tally.lost, tally.executions) == (7, 2, 1, 1, 1)
    assert [note.partition(":")[0] for note in tally.notes] == ["torn", "hung", "two lines", "owned"]


def test_json_is_broken_by_a_seed() -> None:
    whole = json.dumps({"a": {"b": [1, 2]}, "c": "d"})
    texts = [break_json(whole, random.Random(seed)) for seed in range(30)]
    assert texts == [break_json(whole, random.Random(seed)) for seed in range(30)]
    assert all(text != whole for text in texts)
