"""Two processes never work in one folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from newfound.core.errors import UsageError
from newfound.engine.claim import claimed

HOLD = """
import sys, pathlib
from newfound.engine.claim import claimed
claim = claimed(pathlib.Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_another_process_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    call = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match="one process at a time; another one does; wait for it"):
            claimed(tmp_path)
        other.kill()
    claimed(tmp_path)


def test_one_process_shares_its_claim_and_lets_go_with_the_last_that_holds_it(tmp_path: Path) -> None:
    first, second = claimed(tmp_path), claimed(tmp_path)
    assert first is second
    release = first.release
    del first
    assert release.alive
    del second
    assert not release.alive
