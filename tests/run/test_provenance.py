"""What a record says of where its numbers come from."""

import platform
import resource
from types import SimpleNamespace

import pytest

from newfound.run.provenance import peak_memory
from tests.tiny import CPU


@pytest.mark.parametrize(("system", "gib"), [("Linux", 3.0), ("Darwin", 3 / 1024)])
def test_peak_memory_is_counted_in_the_unit_of_the_system(
    system: str, gib: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(resource, "getrusage", lambda _: SimpleNamespace(ru_maxrss=3 * 2**20))
    assert peak_memory(CPU) == gib
