"""What a run leaves behind, key by key: enlarging results.json is a decision that shows here."""

import csv
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from newfound.core import registry
from newfound.core.learner import Method
from newfound.core.registry import Entry, recipe_for
from newfound.data.images import Dataset
from newfound.experiment import Folder, Run, Source
from newfound.experiment.finish import curves, finish, recipe_name
from newfound.methods.iic import IIC
from tests.tiny import tiny_recipe, tiny_run

DESCRIPTION = {
    *("method", "recipe", "config", "benchmark", "seed", "commit", "versions", "hardware", "execution"),
    *("sessions", "timing", "peak_memory_gib", "curves"),
    # besides what was asked for
    *("subset", "best_head", "classes", "cluster_sizes", "warnings"),
}
NUMBER = {"mean", "best_head"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def trained(digits: Dataset, place: Path) -> tuple[Run, Method]:
    """After which the third of the four heads is said to have had the lowest loss."""
    run = tiny_run(place / "run", tiny_recipe("iic"), digits)
    method = run.discover(place / "cache")
    run.log.lines[-1]["head_losses"] = [3.0, 2.0, 1.0, 2.0]
    return run, method


@pytest.fixture(scope="module")
def results(trained: tuple[Run, Method]) -> dict[str, Any]:
    return finish(*trained)[0]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_keys_of_results(results: dict[str, Any]) -> None:
    assert set(results) == DESCRIPTION | {"task_aware", "task_agnostic"}
    assert set(results["versions"]) == {"python", "torch", "numpy", "scikit-learn", "scipy", "pillow"}
    assert results["execution"] == {
        "precision": "float32",
        "mode": {"pretrain": "eager", "discover": "eager"},
    }
    assert set(results["timing"]) == set(results["curves"]) == {"pretrain", "discover"}
    for part in results["timing"].values():
        assert set(part) == {"seconds", "compile_seconds", "images"}
    for points in results["curves"].values():
        assert all(set(point) == {"epoch", "lr", "losses", "scores"} for point in points)


def test_keys_of_the_scores(results: dict[str, Any]) -> None:
    assert set(results["task_aware"]) == {"train", "test"}
    for split in results["task_aware"].values():
        assert set(split) == {"acc", "nmi", "ari", "per_class_accuracy", "cluster_sizes", "class_sizes"}
        assert all(set(split[metric]) == NUMBER for metric in ("acc", "nmi", "ari"))
    assert set(results["task_agnostic"]) == {"legacy", "novel-ids", "joint"}
    for matching in results["task_agnostic"].values():
        assert set(matching) == {"known", "novel", "all"}
        assert all(set(number) == NUMBER for number in matching.values())


def test_every_image_is_encoded_once(digits: Dataset, tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", tiny_recipe("iic"), digits)
    method, seen = run.discover(tmp_path / "cache"), []
    method.encoder.register_forward_hook(lambda encoder, given, out: seen.append(len(out)))
    finish(run, method)
    assert digits.truth is not None
    assert sum(seen) == len(digits.split.unlabelled) + len(digits.truth.test)


def test_values_of_results(trained: tuple[Run, Method], results: dict[str, Any]) -> None:
    run, method = trained
    wanted = {"method": "iic", "recipe": "custom", "benchmark": "digits", "subset": 24, "seed": 0}
    assert {key: results[key] for key in wanted} == wanted
    assert results["config"] == run.recipe.flat()
    assert results["best_head"] == 2
    assert results["peak_memory_gib"] > 0
    evaluator = run.evaluator(method)
    assert evaluator is not None
    assert {key: results[key] for key in ("task_aware", "task_agnostic")} == evaluator(2) != evaluator(0)
    assert [point["epoch"] for point in results["curves"]["discover"]] == [0, 1]
    last = results["curves"]["discover"][-1]["scores"]
    assert last["task_aware.train.acc"] == results["task_aware"]["train"]["acc"]["mean"]
    assert last["task_agnostic.legacy.all"] == results["task_agnostic"]["legacy"]["all"]["mean"]
    assert results["timing"]["discover"]["seconds"] == pytest.approx(
        sum(line["seconds"] for line in run.log.lines if line["stage"] == "discover")
    )


def test_what_is_returned_is_what_is_stored(trained: tuple[Run, Method], results: dict[str, Any]) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    stored = json.loads(trained[0].folder.results.read_text(), parse_constant=refuse)
    assert stored == json.loads(json.dumps(results))


def test_assignments_have_a_line_for_each_unlabelled_image(
    trained: tuple[Run, Method], results: dict[str, Any], digits: Dataset
) -> None:
    run, method = trained
    lines = rows(run.folder.assignments)
    assert [line["image"] for line in lines] == list(digits.split.unlabelled.names)
    assert {line["class"] for line in lines} <= {f"novel-{number}" for number in range(1, 6)}
    assert all(1 / 5 <= float(line["confidence"]) <= 1 for line in lines)
    counts = Counter(line["class"] for line in lines)
    assert results["cluster_sizes"] == [counts[f"novel-{number}"] for number in range(1, 6)]
    scores = run.viewer(method).over(digits.split.unlabelled, method.scores, axis=1)
    novel = scores[results["best_head"], :, digits.split.task.num_known :]
    assert [line["class"] for line in lines] == [f"novel-{index + 1}" for index in novel.argmax(-1).tolist()]


def test_without_truth_there_are_no_scores(digits: Dataset, place: Path) -> None:
    run = tiny_run(place / "blind", tiny_recipe("iic"), replace(digits, truth=None))
    results, _ = finish(run, run.discover(place / "cache"))
    assert set(results) == DESCRIPTION | {"reused"}
    assert len(rows(run.folder.assignments)) == len(digits.split.unlabelled)
    # No epoch was evaluated, so all of them are kept; pretraining came from the cache.
    assert [point["epoch"] for point in results["curves"]["discover"]] == [0, 1]
    assert set(results["timing"]) == {"discover"}


def test_k_means_leaves_the_same(digits: Dataset, place: Path) -> None:
    run = tiny_run(place / "kmeans", tiny_recipe("kmeans"), digits)
    results, _ = finish(run, run.discover(place / "cache"))
    assert set(results) == DESCRIPTION | {"task_aware", "task_agnostic"}
    assert results["recipe"] == "custom"
    assert results["best_head"] == 0


@pytest.fixture
def _values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method with a paper's values for cifar10, ours for digits, and a variation."""
    published, ours = {"cifar10": {"alpha": 0.3}}, {"digits": {"epochs": 9, "hidden": 16}}
    entry = Entry("some", IIC, {}, published, ours, {"no-inter": {"alpha": 0}})
    monkeypatch.setitem(registry._METHODS, "some", entry)


@pytest.mark.usefixtures("_values")
@pytest.mark.parametrize(
    ("source", "overrides", "name"),
    [
        (Source(benchmark="cifar10"), {}, "published"),
        (Source(benchmark="cifar10"), {"alpha": 0.3}, "published"),
        (Source(benchmark="cifar10"), {"seed": 3, "mode": "eager", "precision": "bf16"}, "published"),
        (Source(benchmark="cifar10"), {"encoder": "small"}, "published"),
        (Source(benchmark="cifar10"), {"encoder": "resnet18"}, "custom"),
        (Source(benchmark="cifar10"), {"alpha": 0.05}, "custom"),
        (Source(benchmark="cifar10"), {"pretrained": "some.pth"}, "custom"),
        (Source(benchmark="cifar10", subset=9), {}, "custom"),
        (Source(benchmark="cifar10"), {"alpha": 0}, "no-inter"),
        (Source(benchmark="digits"), {"alpha": 0}, "no-inter"),
        (Source(benchmark="digits"), {"alpha": 0, "epochs": 8}, "custom"),
        (Source(benchmark="cifar10"), {"pretrain.epochs": 3}, "custom"),
        (Source(benchmark="digits"), {}, "newfound"),
        (Source(benchmark="digits"), {"epochs": 10}, "custom"),
        (Source(benchmark="cifar100-30"), {}, "default"),
        (Source(labelled="a", unlabelled="b", num_novel=5), {}, "default"),
        (Source(labelled="a", unlabelled="b", num_novel=5), {"tau": 0.2}, "custom"),
    ],
)
def test_whose_recipe_it_was(
    source: Source, overrides: dict[str, Any], name: str, digits: Dataset, tmp_path: Path
) -> None:
    """The images are always digits, for which auto stands for the small encoder."""
    recipe = recipe_for("some", source.name, {"device": "cpu"} | overrides)
    folder = Folder(tmp_path)
    folder.open(source, recipe, resume=False)
    assert recipe_name(Run(folder, digits, recipe)) == name


def line(stage: str, epoch: int, **scores: float) -> dict[str, Any]:
    return {"stage": stage, "epoch": epoch, "lr": 0.1, "losses": {}, "scores": scores, "seconds": 1.0}


def test_curves_keep_the_evaluated_epochs_or_all() -> None:
    lines = [line("pretrain", 0), line("pretrain", 1), line("discover", 0), line("discover", 1, acc=0.5)]
    kept = curves(lines)
    assert [point["epoch"] for point in kept["pretrain"]] == [0, 1]
    assert kept["discover"] == [{"epoch": 1, "lr": 0.1, "losses": {}, "scores": {"acc": 0.5}}]
