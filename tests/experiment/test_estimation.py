"""Estimates from images to a number: resumable, with nothing hidden ever looked at."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from newfound.core.errors import DataError, RunError, UsageError
from newfound.core.records import Task
from newfound.core.registry import method_names
from newfound.data.images import Dataset, Split
from newfound.engine.checkpoint import Checkpoint
from newfound.estimate.probe import hide_classes
from newfound.experiment import Source, Stopped
from newfound.experiment.estimation import estimate, estimate_num_novel
from newfound.experiment.question import NETWORK_STAGES, Question, noted_without_number
from tests.tiny import STAGE, TINY, tiny_recipe, tiny_run

TRAINING = {**{f"pretrain.{key}": value for key, value in STAGE.items()}, "device": TINY["device"]}
SETTINGS: dict[str, Any] = {**TRAINING, "estimate.max_novel": 4, "estimate.restarts": 2}
MEASURED = ("seconds", "commit")


def question(method: str = "iic", **settings: Any) -> Question:
    return Question.of(Source(benchmark="digits"), method, {**SETTINGS, **settings})


def content(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in MEASURED}


@pytest.fixture(scope="module")
def made(digits: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """An estimate to be looked at, never changed."""
    folder = tmp_path_factory.mktemp("made")
    return folder, estimate(question(), digits.split, folder / "out", folder / "cache")


@pytest.mark.parametrize(("number", "words"), [(1, "1 known class, "), (2, "2 known classes, ")])
def test_the_note_counts_known_classes_alone(number: int, words: str, digits: Dataset) -> None:
    few = replace(digits, split=replace(digits.split, task=Task(number, 5)))
    assert f"labelled images of {words}" in noted_without_number(few).note
    assert "novel" not in noted_without_number(few).note


def test_what_is_recorded(made: tuple[Path, dict[str, Any]]) -> None:
    folder, found = made
    assert json.loads((folder / "out" / "estimate.json").read_text()) == found
    assert [point["extra"] for point in found["curve"]] == [0, 1, 2, 3, 4]
    assert found["low"] <= found["num_novel"] <= found["high"]
    assert (found["num_known"], found["num_hidden"]) == (5, 3)
    assert found["settings"]["estimate.max_novel"] == 4
    assert found["settings"]["pretrain.epochs"] == 2
    assert found["seconds"] > 0
    assert {"commit", "versions", "hardware", "warnings", "preferred", "method", "images"} <= found.keys()
    assert found["data"] == {"benchmark": "digits"}


@pytest.mark.parametrize("algorithm", ["dtc", "gcd"])
def test_truth_and_the_true_number_change_nothing(algorithm: str, digits: Dataset, tmp_path: Path) -> None:
    assert digits.truth is not None
    truth = digits.truth
    shuffled = replace(truth, labels=truth.labels.flip(0), test_labels=truth.test_labels.flip(0))
    other = replace(digits.split, task=replace(digits.split.task, num_novel=9))
    datasets = (digits, replace(digits, truth=shuffled), replace(digits, truth=None, split=other))
    settings = {**SETTINGS, "estimate.algorithm": algorithm}
    found = [
        content(estimate_num_novel(dataset, tmp_path / str(row) / "out", **settings))
        for row, dataset in enumerate(datasets)
    ]
    assert found[0] == found[1] == found[2]


def test_the_network_knows_only_the_classes_it_is_shown(made: tuple[Path, dict[str, Any]]) -> None:
    saved = Checkpoint.load(made[0] / "out" / "probe" / "checkpoint.safetensors")
    assert saved.state["task"]["num_known"] == 2
    assert saved.state["task"]["num_novel"] == 1
    assert len(saved.weights["h.prototypes"]) == 2


def test_gcd_hides_nothing_and_shares_the_pretraining_of_runs(digits: Dataset, tmp_path: Path) -> None:
    recipe = tiny_recipe("iic", **TRAINING)
    tiny_run(tmp_path / "run", recipe, digits).pretrain(tmp_path / "cache")
    said: list[str] = []
    gcd = question(**{"estimate.algorithm": "gcd"})
    found = estimate(gcd, digits.split, tmp_path / "out", tmp_path / "cache", say=said.append)
    assert found["num_hidden"] == 0
    assert 1 <= found["num_novel"] <= 4
    assert all(point["silhouette"] is None for point in found["curve"])
    assert any("reusing" in line for line in said)


def test_it_stops_between_trials_and_goes_on(
    made: tuple[Path, dict[str, Any]], digits: Dataset, tmp_path: Path
) -> None:
    cache, seen = made[0] / "cache", list[int]()

    def go(stop_after: int, resume: bool) -> dict[str, Any]:
        return estimate(
            question(),
            digits.split,
            tmp_path / "out",
            cache,
            resume=resume,
            watch_trial=lambda trial, done, of, seconds: seen.append(trial.extra),
            should_stop=lambda: len(seen) >= stop_after,
        )

    with pytest.raises(Stopped):
        go(2, resume=False)
    kept = json.loads((tmp_path / "out" / "estimate.json").read_text())
    assert kept["curve"] == made[1]["curve"][:2]
    assert "num_novel" not in kept
    with pytest.raises(UsageError, match="holds an estimate already; continue that one with --resume"):
        go(9, resume=False)
    assert content(go(9, resume=True)) == content(made[1])
    assert seen == [0, 1, 2, 3, 4]
    earlier = json.loads((tmp_path / "out" / "estimate.json").read_text())
    del earlier["settings"]["weights"]  # as an earlier version wrote it, which had no such setting
    (tmp_path / "out" / "estimate.json").write_text(json.dumps(earlier))
    assert content(go(9, resume=True)) == content(earlier)
    assert seen == [0, 1, 2, 3, 4]


def test_it_stops_while_the_network_is_trained_and_goes_on(
    made: tuple[Path, dict[str, Any]], digits: Dataset, tmp_path: Path
) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    with pytest.raises(Stopped):
        estimate(question(), digits.split, out, cache, should_stop=lambda: True)
    assert json.loads((out / "estimate.json").read_text())["curve"] == []
    epochs: list[int] = []
    found = estimate(
        question(),
        digits.split,
        out,
        cache,
        resume=True,
        watch=lambda record, scores: epochs.append(record.epoch),
    )
    assert epochs == [1]
    assert content(found) == content(made[1])


def test_another_question_is_refused(
    made: tuple[Path, dict[str, Any]], digits: Dataset, tmp_path: Path
) -> None:
    folder = made[0] / "out"
    before = (folder / "estimate.json").read_bytes()

    def refused(asked: Question, split: Split, words: str) -> None:
        with pytest.raises(UsageError, match=f"got other values for {words} than .* has; leave them"):
            estimate(asked, split, folder, tmp_path, resume=True)

    other = question("iic", **{"seed": 3, "estimate.theta": 0.2})
    refused(other, digits.split, "estimate.theta, seed")
    refused(question("uno-v2"), digits.split, "method")
    refused(question(), replace(digits.split, labels=digits.split.labels.flip(0)), "images")
    assert (folder / "estimate.json").read_bytes() == before


def test_files_of_nobody_knows_what(digits: Dataset, tmp_path: Path) -> None:
    (tmp_path / "left" / "probe").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"a probe without its estimate\.json"):
        estimate(question(), digits.split, tmp_path / "left", tmp_path)
    for text in ("{", "[]", '{"curve": []}'):
        (tmp_path / "estimate.json").write_text(text)
        with pytest.raises(RunError, match="must be the JSON"):
            estimate(question(), digits.split, tmp_path, tmp_path, resume=True)


def test_too_few_known_classes_leave_no_trace(digits: Dataset, tmp_path: Path) -> None:
    asked = question(**{"estimate.algorithm": "dtc"})
    with pytest.raises(DataError, match="at least 5 known classes; got 4"):
        estimate(asked, hide_classes(digits.split, 1)[0], tmp_path / "out", tmp_path / "cache")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("method", method_names())
def test_every_method_lends_its_network(method: str) -> None:
    """Stages that make a classifier; one without any borrows the usual one; given weights are left out."""
    asked = Question.of(Source(benchmark="digits"), method, {"seed": 4, "pretrained": "some.pth"})
    assert asked.recipe.pretraining
    assert set(asked.recipe.pretraining) <= set(NETWORK_STAGES)
    assert asked.recipe.run.seed == 4
    assert asked.recipe.run.pretrained == ""
    assert asked.as_dict()["method"] == method
