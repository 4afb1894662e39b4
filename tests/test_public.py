"""The public page: what `import newfound` offers, and that it works from images to classes."""

import errno
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import newfound
from newfound.core.errors import DataError, RunError, UsageError
from newfound.core.registry import recipe_for
from newfound.core.source import Source
from newfound.data.dataset import Dataset
from newfound.run.folder import Folder
from newfound.run.models import Estimate, Results
from newfound.run.recipe import stored_recipe
from newfound.run.trained import Pictures
from tests.tiny import QUICK, SUBSET, accuracy, stripes

ESTIMATE = {**QUICK, "estimate.max_novel": 2, "estimate.restarts": 1}
PAGE = {
    *("__version__", "NovelClassDiscovery", "discover", "estimate_num_novel", "predict", "export", "Review"),
    "predict_parts",
    *("from_arrays", "from_embeddings", "from_folders", "from_run", "load_benchmark"),
    *("benchmark_names", "method_names", "embed", "hungarian_accuracy", "NewfoundError"),
}


def arrays() -> Dataset:
    """Stripes, two of the four kinds labelled."""
    images, kinds = stripes()
    return newfound.from_arrays(images, np.where(kinds < 2, kinds, -1), num_novel=2)  # type: ignore[no-any-return]


def paint(path: Path, value: int) -> None:
    """An image of one grey."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((12, 12), value, np.uint8)).save(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on arrays."""
    out = tmp_path_factory.mktemp("runs") / "run"
    newfound.discover("iic", arrays(), out, verbose=False, **QUICK)
    return out


class Collect(logging.Handler):
    """A handler of the caller."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    """What the logger `newfound` passes to a handler of the caller."""
    handler, logger = Collect(), logging.getLogger("newfound")
    logger.addHandler(handler)
    yield handler.records
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def test_the_page() -> None:
    assert set(dir(newfound)) == set(newfound.__all__) == PAGE
    assert all(getattr(newfound, name) is not None for name in PAGE)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        newfound.nothing  # noqa: B018


def test_arrays_to_classes(run: Path) -> None:
    results = Folder(run).read_results()
    assert isinstance(results, Results)
    assert sum(results.cluster_sizes) == 30
    assert results.task_aware is None
    assert (run / "assignments.csv").read_text().count("\n") == 31
    assert (run / "report.html").exists()
    with pytest.raises(UsageError, match="resume=True"):
        newfound.discover("iic", arrays(), run, **QUICK)
    with pytest.raises(UsageError, match="passed in Python"):
        Pictures.load(Folder(run))
    again = newfound.discover("iic", arrays(), run, resume=True, verbose=False, **QUICK)
    changes = {"peak_memory_gib": results.peak_memory_gib}
    assert again.model_copy(update=changes) == results


def test_classes_are_named_merged_exported_and_predicted(run: Path, tmp_path: Path) -> None:
    mine = newfound.Review.open(run)
    mine.rename({"novel-1": "stripes"})
    mine.merge("stripes", "novel-2")
    newfound.export(run, tmp_path / "it.csv")
    assert (tmp_path / "it.csv").read_text().count(",stripes,") == 30
    paint(tmp_path / "new" / "grey.png", 100)
    found = newfound.predict(run, tmp_path / "new")
    assert [Path(name).name for name in found.images] == ["grey.png"]
    assert set(found.classes) <= {"0", "1", "stripes"}


def test_a_benchmark_has_its_own_recipe_and_is_found_again(tmp_path: Path) -> None:
    data = newfound.load_benchmark("digits", subset=np.int64(SUBSET))
    results = newfound.discover("iic", data, tmp_path / "run", **QUICK)
    request = Folder(tmp_path / "run").request()
    assert request.source == Source(benchmark="digits", subset=SUBSET)
    assert stored_recipe(request) == recipe_for("iic", "digits", QUICK) != recipe_for("iic", "own", QUICK)
    assert (results.benchmark, results.subset) == ("digits", SUBSET)
    assert accuracy(results) > 0.2


def test_an_estimate_is_used_by_a_later_run(tmp_path: Path) -> None:
    found = newfound.estimate_num_novel(arrays(), tmp_path / "run", verbose=False, **ESTIMATE)
    assert isinstance(found, Estimate)
    assert found.num_novel in (1, 2)
    assert found.curve[0].extra == 1
    images, kinds = stripes()
    unknown = newfound.from_arrays(images, np.where(kinds < 2, kinds, -1))
    before = (tmp_path / "run/estimate/estimate.json").read_bytes()
    results = newfound.discover("iic", unknown, tmp_path / "run", verbose=False, **ESTIMATE)
    assert results.estimate is not None
    assert results.estimate.num_novel == len(results.cluster_sizes) == found.num_novel
    assert (tmp_path / "run/estimate/estimate.json").read_bytes() == before


def test_own_files_are_found_again_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    for row in range(24):
        folder = tmp_path / (f"known/{row % 2}" if row < 12 else "pile")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (12, 12, 3), np.uint8)).save(folder / f"{row}.png")
    monkeypatch.chdir(tmp_path)
    data = newfound.from_folders("known", "pile", 2)
    monkeypatch.chdir("known")
    newfound.discover("iic", data, tmp_path / "run", verbose=False, **QUICK)
    source = Folder(tmp_path / "run").request().source
    assert (source.labelled, source.unlabelled) == (str(tmp_path / "known"), str(tmp_path / "pile"))
    assert source.num_novel == 2
    written = newfound.Review.open(tmp_path / "run").assignments.images
    assert set(written) == {str(path) for path in (tmp_path / "pile").iterdir()}
    assert len(Pictures.load(Folder(tmp_path / "run"))(range(12), 99)) == 12


def test_what_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    images = np.zeros((6, 12, 12), np.uint8)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="also take num_novel"):
        newfound.discover("iic", arrays(), tmp_path / "run", num_novel=4)
    with pytest.raises(UsageError, match=r"newfound\.from_arrays"):
        newfound.discover("iic", images, tmp_path / "run")
    with pytest.raises(UsageError, match=r"newfound\.from_arrays"):
        newfound.estimate_num_novel(images, tmp_path / "run")
    with pytest.raises(UsageError, match="Did you mean 'iic'"):
        newfound.discover("icc", arrays(), tmp_path / "run")
    with pytest.raises(UsageError, match="Unknown setting 'epoch'"):
        newfound.discover("iic", arrays(), tmp_path / "run", epoch=3)
    for call in (newfound.estimate_num_novel, lambda *given: newfound.discover("iic", *given)):
        with pytest.raises(RunError, match="is a file"):
            call(arrays(), tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_arguments_that_are_no_paths_are_named(run: Path) -> None:
    calls: dict[str, Callable[[], object]] = {
        "labelled": lambda: newfound.from_folders(None, "pile", 2),
        "unlabelled": lambda: newfound.from_folders("known", 5, 2),
        "out": lambda: newfound.discover("iic", arrays(), ""),
        "run": lambda: newfound.export(b"run", "classes.csv"),
        "images": lambda: newfound.predict(run, ["a.png"]),
        "folder": lambda: newfound.NovelClassDiscovery.load(None),
    }
    for name, call in calls.items():
        with pytest.raises(UsageError, match=f"^Argument '{name}' must be a path"):
            call()
    for out in ("\0x", "no text \udcff"):
        with pytest.raises(UsageError, match=r"^Argument 'out' must be a path"):
            newfound.discover("iic", arrays(), out)


def test_arguments_of_another_type_are_named(run: Path) -> None:
    review = newfound.Review.open(run)
    images, kinds = stripes()
    calls: dict[str, Callable[[], object]] = {
        "Argument 'names' must be a mapping": lambda: review.rename(None),
        "Argument 'names' must be text": lambda: review.rename({"novel-1": 3}),
        "Argument 'rows' must be a whole number": lambda: review.move_rows("novel-1", np.zeros((2, 2), int)),
        "Argument 'number' must be a whole number": lambda: review.split("novel-1", 2.5),
        "Argument 'method' must be text": lambda: newfound.discover([], arrays(), run),
        "Argument 'pile' must be 'mixed' or 'novel'": lambda: newfound.from_arrays(
            images, kinds, 2, pile="x"
        ),
        "Argument 'size' must be at least 8": lambda: newfound.from_folders("known", "pile", 2, size="3"),
        "Argument 'out' must be a path": lambda: newfound.discover("iic", arrays(), "\0x"),
    }
    for words, call in calls.items():
        with pytest.raises(UsageError, match=f"^{words}"):
            call()
    assert newfound.from_arrays(images, np.where(kinds < 2, kinds, -1), np.float64(2)).num_novel == 2


def test_rows_may_come_as_an_array(run: Path, tmp_path: Path) -> None:
    review = newfound.Review.open(shutil.copytree(run, tmp_path / "copy"))
    into = review.classes[0].name
    review.move_rows(into, np.arange(len(review.ids)))
    assert set(review.ids.tolist()) == {review.classes[0].id}


def test_a_full_disk_can_be_resumed_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"No space left.*resume=True"):
        newfound.discover("iic", arrays(), tmp_path / "run", **QUICK)


def test_the_accuracy_of_arrays_by_its_definition() -> None:
    """Every assignment is tried; what the clusters and classes are called does not matter."""
    random = np.random.default_rng(0)
    clusters, classes = random.integers(0, 4, 50), random.integers(0, 4, 50)
    best = max((np.array(names)[clusters] == classes).mean() for names in permutations(range(4)))
    called = np.array(["ant", "bee", "cat", "dog"])[classes]
    for given in (
        (clusters, classes),
        (clusters - 1, called),
        (clusters.astype(float), called.astype(object)),
        (torch.from_numpy(clusters), classes.tolist()),
    ):
        assert newfound.hungarian_accuracy(*given) == pytest.approx(best)


@pytest.mark.parametrize(
    "wrong",
    [
        ([], []),
        ([0, 1], [0]),
        (np.zeros((3, 2)), [0, 1, 2]),
    ],
)
def test_what_has_no_accuracy(wrong: tuple[Any, Any]) -> None:
    with pytest.raises(DataError, match="Clusters and classes must"):
        newfound.hungarian_accuracy(*wrong)


def test_a_run_shows_its_log_unless_it_is_not_verbose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newfound.discover("iic", arrays(), tmp_path / "told", **QUICK)
    told = capsys.readouterr().out.splitlines()
    epochs = [line.split("  ")[0] for line in told if " s left  " in line]
    assert epochs == ["pretrain 1/2", "pretrain 2/2", "discover 1/2", "discover 2/2"]
    assert told[0].endswith('no image of a known class. If it may, pass pile="mixed".')
    assert told[1].startswith("arrays: 30 labelled images of 2 known classes")
    assert any("report.html" in line for line in told)
    assert len(told) == len(set(told))
    newfound.discover("iic", arrays(), tmp_path / "silent", verbose=False, **QUICK)
    assert capsys.readouterr().out == ""


def test_the_log_can_be_redirected(
    run: Path, records: list[logging.LogRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    """To a handler of the caller: nothing is shown beside it, and its level decides."""
    logger = logging.getLogger("newfound")
    logger.setLevel(logging.INFO)
    newfound.discover("iic", arrays(), run, resume=True, **QUICK)
    assert capsys.readouterr().out == ""
    assert {record.levelno for record in records} >= {logging.INFO}
    assert all(record.name.split(".")[0] == "newfound" for record in records)
    assert logger.level == logging.INFO


def test_the_log_can_be_levelled(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("newfound")
    monkeypatch.setattr("newfound.run.finish.collapse_warnings", lambda *found: ["a class is empty"])
    for level, told in ((logging.WARNING, "a class is empty\n"), (logging.CRITICAL, "")):
        logger.setLevel(level)
        newfound.discover("iic", arrays(), run, resume=True, **QUICK)
        assert capsys.readouterr().out == told
    logger.setLevel(logging.NOTSET)
    assert logger.handlers == []


def test_warnings_are_logged_without_verbose(
    tmp_path: Path, records: list[logging.LogRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newfound.run.estimation.warnings_for", lambda *found: ["too few classes"])
    dark = newfound.from_arrays(np.full((8, 12, 12), 15, np.uint8), [0, 0, 1, 1, -1, -1, -1, -1])
    newfound.estimate_num_novel(dark, tmp_path / "run", verbose=False, **ESTIMATE)
    said = [record.getMessage() for record in records if record.levelno == logging.WARNING]
    assert "too few classes" in said
    assert any("too dark" in line for line in said)
