"""Loading a source again gives the same data set."""

from pathlib import Path
from typing import Any

import pytest

from newfound.core.errors import Hint, UsageError
from newfound.core.source import Source
from newfound.data import load
from newfound.data.benchmarks import load_benchmark
from newfound.data.folders import from_folders
from newfound.data.holdout import hold_out
from tests.data.conftest import Paint


def test_a_benchmark() -> None:
    source = Source(benchmark="digits", subset=12)
    found = load(source)
    assert found.source == source == load_benchmark("digits", subset=12).source
    estimated = Source(benchmark="digits", subset=12, num_novel=3, estimated="gcd")
    assert load(estimated).num_novel == 3
    assert load(estimated).source == estimated
    assert found.with_num_novel(3).source == Source(benchmark="digits", subset=12, num_novel=3)
    assert load(Source(benchmark="digits", subset=12, pile="mixed")).split.pile == "mixed"
    held = Source(benchmark="digits", subset=12, held_out=2)
    assert load(held).source == held == hold_out(found, 2).source
    assert load(held).fingerprint() == hold_out(found, 2).fingerprint()


def test_own_images(tmp_path: Path, paint: Paint) -> None:
    for name in ("ant", "bee", "cat", "dog"):
        for number in range(5):
            paint(tmp_path / "known" / name / f"{number}.png", (10 * number, 0, 0))
    paint(tmp_path / "pile" / "0.png")
    own: dict[str, Any] = {"labelled": str(tmp_path / "known"), "unlabelled": str(tmp_path / "pile")}
    assert load(Source(**own)).split.pile == "novel"
    every: tuple[dict[str, Any], ...]
    every = ({}, {"num_novel": 1}, {"num_novel": 1, "size": 40, "strict": True, "subset": 3})
    own["pile"] = "mixed"
    for given in every:
        source = Source(**own, **given)
        found, direct = load(source), from_folders(**own, **given)
        assert found.source == source == direct.source
        assert found.fingerprint() == direct.fingerprint()
        assert found.num_novel == given.get("num_novel")
        assert found.split.pile == direct.split.pile == "mixed"
    held = load(Source(**own, held_out=2, subset=5))  # needs no number, since it drops the pile
    assert (held.num_known, held.num_novel, held.class_names) == (2, 2, ("ant", "bee", "cat", "dog"))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"arrays": "0f"}, "cannot be loaded again"),
        ({}, f"No images.*{Hint.SOURCE.value}"),
        ({"labelled": "a"}, "Only labelled images"),
        ({"unlabelled": "a"}, "Only unlabelled images"),
        ({"labelled": "a", "unlabelled": "b", "data_dir": "c"}, "data_dir cannot be combined"),
        ({"benchmark": "digits", "labelled": "a", "num_novel": 3}, "labelled, num_novel cannot be combined"),
        ({"labelled": "a", "unlabelled": "b", "subset": 3}, "subset .*needs the number"),
    ],
)
def test_refused(source: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        load(Source(**source))  # type: ignore[arg-type]
