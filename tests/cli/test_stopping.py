"""A time to stop at: counted from the call, and one for all that it runs."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from newfound.cli.stopping import Stopping, time_after
from newfound.core import registry
from tests.cli.calls import TINY, works
from tests.cli.conftest import OwnImages


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("9m", 540), ("1.5h", 5400), ("0s", 0)])
def test_the_end_is_so_long_after_now(text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr("newfound.cli.stopping.time", clock)
    stopping = Stopping(time_after(text), print)
    for now, over in ((99.9 + seconds, False), (100.0 + seconds, True)):
        clock.monotonic = lambda now=now: now
        assert stopping() == over


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """When each run, or estimate, of a call is to stop."""
    found: list[float | None] = []

    class Watched(Stopping):
        def __init__(self, at: float | None, *more: object) -> None:
            found.append(at)
            super().__init__(at, *more)  # type: ignore[arg-type]

    for module in ("train", "estimating"):
        monkeypatch.setattr(f"newfound.cli.{module}.Stopping", Watched)
    return found


def test_all_seeds_share_one_end(ends: list[float | None], monkeypatch: pytest.MonkeyPatch) -> None:
    entry = registry.method_entry("iic")
    tiny = dict(setting.split("=") for setting in TINY)
    monkeypatch.setitem(registry._METHODS, "iic", replace(entry, variations={"tiny": tiny}))
    works("reproduce", "digits", "iic", "--recipe", "tiny", "--seeds", "0,1", "--stop-after", "9h")
    assert len(ends) == 2
    assert ends[0] == ends[1] is not None


def test_an_estimate_and_its_run_share_one_end(ends: list[float | None], images: OwnImages) -> None:
    own = (*images.options[:4], "encoder=small", "estimate.max_novel=3")
    works("discover", "iic", *TINY, *own, "--stop-after", "9h")
    assert len(ends) == 2
    assert ends[0] == ends[1] is not None
