"""The public page: what `import newfound` offers, and that it works from arrays to classes."""

import errno
import os
import re
from collections.abc import Callable
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
from newfound.data.images import Dataset
from newfound.experiment import Folder, Source
from newfound.experiment.reopen import evaluator_of, pile_of
from tests.tiny import NARROW, STAGE, SUBSET, TINY

QUICK = {**TINY, **NARROW, **{f"pretrain.{key}": value for key, value in STAGE.items()}}

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
    "NewfoundError",
}


def arrays() -> Dataset:
    """Four kinds of stripes, two of them labelled."""
    random = np.random.default_rng(0)
    kinds = np.repeat(np.arange(4), 15)
    images = random.random((60, 12, 12)) * 0.3
    for image, kind in zip(images, kinds, strict=True):
        image[kind::4] += 0.7
    return newfound.from_arrays(images, np.where(kinds < 2, kinds, -1), num_novel=2)  # type: ignore[no-any-return]


def paint(path: Path, value: int, dtype: type[np.integer[Any]] = np.uint8) -> None:
    """An image of one grey."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((12, 12), value, dtype)).save(path)


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
    for reopen in (evaluator_of, pile_of):
        with pytest.raises(UsageError, match="given in Python"):
            reopen(Folder(tmp_path / "run"))
    with pytest.raises(UsageError, match="that one with resume=True, or choose another out"):
        newfound.discover("iic", arrays(), tmp_path / "run", **TINY, **NARROW)


def test_a_full_disk_is_told_with_the_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"then repeat the call, with resume=True$"):
        newfound.discover("iic", arrays(), tmp_path / "run", **TINY, **NARROW)


def test_classes_are_named_merged_and_exported(tmp_path: Path) -> None:
    newfound.discover("iic", arrays(), tmp_path / "run", **TINY, **NARROW)
    mine = newfound.Review.open(tmp_path / "run")
    mine.rename({"novel-1": "stripes"})
    mine.merge("stripes", "novel-2")
    newfound.export(tmp_path / "run", tmp_path / "it.csv")
    assert (tmp_path / "it.csv").read_text().count(",stripes,") == 30


def test_a_benchmark_has_its_own_recipe_and_is_found_again(tmp_path: Path) -> None:
    results = newfound.discover(
        "iic", newfound.load_benchmark("digits", subset=np.int64(SUBSET)), tmp_path / "run", **QUICK
    )
    run = Folder(tmp_path / "run")
    assert run.source() == Source("digits", subset=SUBSET)
    assert run.recipe() == recipe_for("iic", "digits", QUICK)
    assert run.recipe() != recipe_for("iic", "own", QUICK)
    assert (results["benchmark"], results["subset"]) == ("digits", SUBSET)
    evaluator, _, head = evaluator_of(run)
    found = evaluator(head)
    assert found == {key: results[key] for key in found}


def test_an_estimate_has_the_recipe_of_the_benchmark(tmp_path: Path) -> None:
    settings = {**QUICK, "estimate.max_novel": 2, "estimate.restarts": 1}
    found = newfound.estimate_num_novel(
        newfound.load_benchmark("digits", subset=SUBSET), tmp_path / "out", **settings
    )
    assert found["data"] == {"benchmark": "digits", "subset": SUBSET}


def test_own_files_are_found_again_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    for row in range(24):
        folder = tmp_path / (f"known/{row % 2}" if row < 12 else "pile")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (12, 12, 3), np.uint8)).save(folder / f"{row}.png")
    monkeypatch.chdir(tmp_path)
    data = newfound.load_own("known", "pile", 2)
    monkeypatch.chdir("known")
    newfound.discover("iic", data, tmp_path / "run", **QUICK)
    run = Folder(tmp_path / "run")
    assert run.source() == Source(
        labelled=str(tmp_path / "known"), unlabelled=str(tmp_path / "pile"), num_novel=2
    )
    written = newfound.Review.open(tmp_path / "run").assignments.images
    assert list(pile_of(run).images.names) == list(written)


def test_the_number_is_no_setting(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"with the images; got it as a setting; .* newfound\.from_arrays"):
        newfound.discover("iic", arrays(), tmp_path / "run", num_novel=4)


def test_something_else_than_a_data_set(tmp_path: Path) -> None:
    images, said = np.zeros((6, 12, 12), np.uint8), r"as a data set; got ndarray; .* newfound\.from_arrays"
    with pytest.raises(UsageError, match=said):
        newfound.discover("iic", images, tmp_path / "run")
    with pytest.raises(UsageError, match=said):
        newfound.estimate_num_novel(images, tmp_path / "run")


@pytest.mark.parametrize("wrong", [None, ["pile"], 5, b"pile", ""])
def test_what_is_no_path(wrong: Any) -> None:
    calls: dict[str, list[Callable[[], object]]] = {
        "labelled": [lambda: newfound.load_own(wrong, "pile", 2)],
        "unlabelled": [lambda: newfound.load_own("known", wrong, 2)],
        "out": [
            lambda: newfound.discover("iic", arrays(), wrong),
            lambda: newfound.estimate_num_novel(arrays(), wrong),
        ],
        "run": [lambda: newfound.Review.open(wrong), lambda: newfound.export(wrong, "classes.csv")],
        "folder": [lambda: newfound.NovelClassDiscovery.load(wrong)],
    }
    for name, each in calls.items():
        for call in each:
            with pytest.raises(
                UsageError, match=f"^{name} must be a path; got {re.escape(repr(wrong))}; give"
            ):
                call()


def test_a_file_is_no_folder_for_an_estimate(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="/file is a file; mend that, or choose another"):
        newfound.estimate_num_novel(arrays(), tmp_path / "file", **{"pretrain.epochs": 0})


def test_the_accuracy_of_arrays_by_its_definition() -> None:
    """Every assignment is tried; what the clusters and classes are called does not matter."""
    random = np.random.default_rng(0)
    clusters, classes = random.integers(0, 4, 50), random.integers(0, 4, 50)
    best = max((np.array(names)[clusters] == classes).mean() for names in permutations(range(4)))
    called = np.array(["ant", "bee", "cat", "dog"])[classes]
    for given in (
        (clusters, classes),
        (clusters - 1, called),
        (torch.from_numpy(clusters), classes.tolist()),
    ):
        assert newfound.hungarian_accuracy(*given) == pytest.approx(best)


@pytest.mark.parametrize("wrong", [([], []), ([0, 1], [0]), (np.zeros((3, 2)), [0, 1, 2])])
def test_what_has_no_accuracy(wrong: tuple[Any, Any]) -> None:
    with pytest.raises(DataError, match=r"must be \(n,\)"):
        newfound.hungarian_accuracy(*wrong)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 0.5, None])
def test_what_is_no_cluster(wrong: Any) -> None:
    with pytest.raises(DataError, match=rf"whole numbers or names; got {re.escape(repr(wrong))}; leave"):
        newfound.hungarian_accuracy([0.0, wrong], [1, 0])
    assert newfound.hungarian_accuracy([0.0, 3.0], [1, 0]) == 1
    with pytest.raises(DataError, match="must not be masked"):
        newfound.hungarian_accuracy(np.ma.masked_equal([0, 1], 1), [1, 0])


def test_a_run_tells_how_it_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newfound.discover("iic", arrays(), tmp_path / "told", **QUICK)
    told = capsys.readouterr().out.splitlines()
    epochs = [line.split("  ")[0] for line in told if " s left  " in line]
    assert epochs == ["pretrain 1/2", "pretrain 2/2", "discover 1/2", "discover 2/2"]
    assert told[0].startswith("arrays: 30 labelled images of 2 known classes")
    assert told[-1].endswith("report.html")
    newfound.discover("iic", arrays(), tmp_path / "silent", verbose=False, **QUICK)
    assert capsys.readouterr().out == ""


def test_slow_reading_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("newfound.data.reading.OFTEN", 0)
    paint(tmp_path / "known/a/0.png", 200)
    paint(tmp_path / "pile/0.png", 200)
    newfound.load_own(tmp_path / "known", tmp_path / "pile", 1)
    assert capsys.readouterr().out == "reading images 1/2, 0 s left\n"
    newfound.load_own(tmp_path / "known", tmp_path / "pile", 1, say=lambda line: None)
    assert capsys.readouterr().out == ""


def test_images_that_come_out_dark_are_warned_of(tmp_path: Path) -> None:
    paint(tmp_path / "known/a/0.png", 200)
    for row in range(2):
        paint(tmp_path / f"pile/{row}.tif", 4095, np.uint16)
    data = newfound.load_own(tmp_path / "known", tmp_path / "pile", 1)
    with (
        pytest.warns(UserWarning, match="2 of 2 files .* got 4,095 as the largest") as caught,
        pytest.raises(UsageError, match="unknown method"),
    ):
        newfound.discover("icc", data, tmp_path / "run")
    assert {each.filename for each in caught} == {__file__}


def test_what_looks_wrong_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the line that asked for it, whether or not anything is printed."""
    monkeypatch.setattr("newfound.experiment.finish.warnings_for", lambda *found: ["a class is empty"])
    monkeypatch.setattr("newfound.experiment.estimation.warnings_for", lambda *found: ["too few classes"])
    estimate = {**QUICK, "estimate.max_novel": 2, "estimate.restarts": 1}
    with pytest.warns(UserWarning, match="a class is empty") as caught:
        newfound.discover("iic", arrays(), tmp_path / "run", verbose=False, **QUICK)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="too few classes") as caught:
        newfound.estimate_num_novel(arrays(), tmp_path / "estimate", verbose=False, **estimate)
    assert caught[0].filename == __file__


def test_an_estimate_tells_what_it_has_no_use_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"epochs": 3, "device": "cpu", "pretrain.epochs": 0, "estimate.max_novel": 1}
    newfound.estimate_num_novel(arrays(), tmp_path / "estimate", **given)
    told = capsys.readouterr().out
    assert told.startswith("epochs has no effect here: only pretrain is trained; pretrain.epochs has\n")


def test_too_few_labelled_images_are_warned_of_before_anything_else(tmp_path: Path) -> None:
    one = newfound.from_arrays(np.full((4, 8, 8), 255, np.uint8), [0, 0, 0, -1], num_novel=1)
    with (
        pytest.warns(UserWarning, match="a single known class") as caught,
        pytest.raises(UsageError, match="unknown method"),
    ):
        newfound.discover("icc", one, tmp_path / "run")
    assert [each.filename for each in caught] == [__file__] * 2
