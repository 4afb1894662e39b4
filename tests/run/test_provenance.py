"""What a record says of where its numbers come from."""

import platform
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from newfound.run.provenance import commit, peak_memory
from tests.tiny import CPU


@pytest.mark.parametrize(("system", "gib"), [("Linux", 3.0), ("Darwin", 3 / 1024)])
def test_peak_memory_is_counted_in_the_unit_of_the_system(
    system: str, gib: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    resource = pytest.importorskip("resource", reason="Windows has no module resource")
    monkeypatch.setattr(resource, "getrusage", lambda _: SimpleNamespace(ru_maxrss=3 * 2**20))
    assert peak_memory(CPU) == gib


def test_the_commit_is_asked_for_without_a_lock_that_could_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, run = list[str](), subprocess.run

    def spied(call: list[str], **how: Any) -> "subprocess.CompletedProcess[str]":
        asked.append(how["env"]["GIT_OPTIONAL_LOCKS"])
        return run(call, **how)

    monkeypatch.setattr(subprocess, "run", spied)
    monkeypatch.delenv("NEWFOUND_COMMIT", raising=False)
    commit.__wrapped__()
    assert {*asked} == {"0"}
