"""The public page: what `import newfound` offers, and that it works from arrays to classes."""

from pathlib import Path

import numpy as np
import pytest

import newfound
from newfound.core.errors import UsageError
from newfound.data.images import Dataset
from newfound.experiment import Folder
from tests.tiny import NARROW, TINY

PAGE = {
    "__version__",
    "NovelClassDiscovery",
    "discover",
    "Review",
    "export",
    "estimate_num_novel",
    "from_arrays",
    "load_own",
    "load_benchmark",
    "benchmark_names",
    "method_names",
    "hungarian_accuracy",
}


def arrays() -> Dataset:
    """Four kinds of stripes, two of them labelled."""
    random = np.random.default_rng(0)
    kinds = np.repeat(np.arange(4), 15)
    images = random.random((60, 12, 12)) * 0.3
    for image, kind in zip(images, kinds, strict=True):
        image[kind::4] += 0.7
    return newfound.from_arrays(images, np.where(kinds < 2, kinds, -1), num_novel=2)  # type: ignore[no-any-return]


def test_the_page() -> None:
    assert set(dir(newfound)) == set(newfound.__all__) == PAGE
    assert all(getattr(newfound, name) is not None for name in PAGE)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        newfound.nothing  # noqa: B018


def test_arrays_to_classes(tmp_path: Path) -> None:
    results = newfound.discover("iic", arrays(), tmp_path / "run", **TINY, **NARROW)
    assert sum(results["cluster_sizes"]) == 30
    assert (tmp_path / "run" / "assignments.csv").read_text().count("\n") == 31
    assert "in 30 images" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    with pytest.raises(UsageError, match="given in Python"):
        Folder(tmp_path / "run").source().load()
    with pytest.raises(UsageError, match="holds a run already"):
        newfound.discover("iic", arrays(), tmp_path / "run", **TINY, **NARROW)


def test_classes_are_named_merged_and_exported(tmp_path: Path) -> None:
    newfound.discover("iic", arrays(), tmp_path / "run", **TINY, **NARROW)
    mine = newfound.Review.open(tmp_path / "run")
    mine.rename({"novel-1": "stripes"})
    mine.merge("stripes", "novel-2")
    newfound.export(tmp_path / "run", tmp_path / "it.csv")
    assert (tmp_path / "it.csv").read_text().count(",stripes,") == 30
