"""What a run leaves behind: enlarging a record is a decision that shows here."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from newfound.core.errors import RunError
from newfound.core.registry import METHODS, Entry, recipe_for
from newfound.core.source import Source
from newfound.data.benchmarks import load_benchmark
from newfound.data.dataset import Dataset, Truth
from newfound.data.holdout import hold_back
from newfound.data.vectors import from_embeddings
from newfound.methods.iic import IIC
from newfound.metrics.calibration import temperature
from newfound.run.finish import collapse_warnings, curves, known_warnings
from newfound.run.models import Classes, EpochLine, Results
from newfound.run.pile import COLUMNS, Assignments, Pile, write_csv
from newfound.run.recipe import recipe_name
from newfound.run.run import Run
from newfound.run.trained import Trained
from tests.tiny import tiny_recipe, tiny_run

DESCRIPTION = {
    *("schema_version", "method", "recipe", "config", "benchmark", "seed", "commit", "versions", "hardware"),
    *("pile", "calibration"),
    *("execution", "sessions", "timing", "reused", "peak_memory_gib", "curves", "subset", "best_head"),
    *("classes", "cluster_sizes", "unsorted", "warnings"),
}


@pytest.fixture(scope="module")
def run(digits: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = tiny_run(tmp_path_factory.mktemp("runs") / "run", tiny_recipe("iic"), digits)
    run.discover()
    return run


@pytest.fixture(scope="module")
def results(run: Run) -> Results:
    return run.folder.read_results()


def test_fields_of_the_file(run: Run) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    stored = json.loads(run.folder.results.read_text(), parse_constant=refuse)
    assert set(stored) == DESCRIPTION | {"task_aware", "task_agnostic"}
    assert set(stored["task_agnostic"]) == {"legacy", "novel-ids", "joint"}
    assert set(stored["task_aware"]["train"]) == {
        *("acc", "nmi", "ari", "per_class_accuracy", "cluster_sizes", "class_sizes")
    }
    parts = {"python", "torch", "numpy", "scikit-learn", "scipy", "pillow", "encoder"}
    assert set(stored["versions"]) == parts
    assert stored["versions"]["encoder"] == "small, 8 pixels, 128 features"


def test_values(run: Run, results: Results, digits: Dataset) -> None:
    assert (results.method, results.recipe, results.benchmark) == ("iic", "custom", "digits")
    assert (results.subset, results.seed, results.config) == (24, 0, run.recipe.flat() | {"views": 1})
    lines = run.folder.read_metrics()
    last = [line for line in lines if line.stage == "discover"][-1]
    assert results.best_head == int(np.argmin(last.head_losses))
    assert results.task_aware is not None
    assert results.task_agnostic is not None
    assert last.scores["task_aware.train.acc"] == results.task_aware.train.acc.mean
    assert last.scores["task_agnostic.legacy.all"] == results.task_agnostic.legacy.all.mean
    seconds = sum(line.seconds for line in lines if line.stage == "discover")
    assert results.timing["discover"].seconds == pytest.approx(seconds)
    assert [point.epoch for point in results.curves["discover"]] == [0, 1]


def test_assignments_and_pile_agree_with_the_method(run: Run, results: Results, digits: Dataset) -> None:
    assert results.classes is not None
    found = Assignments.read(run.folder.assignments, results.classes)
    pile, images = Pile.read(run.folder.pile), digits.split.unlabelled
    assert list(found.images) == list(images.names)
    trained = Trained.load(run.folder)
    logits = trained.scores(images).numpy()
    np.testing.assert_allclose(pile.logits, logits, rtol=1e-5)
    assert (found.ids == digits.num_known + logits[:, digits.num_known :].argmax(1)).all()
    assert results.cluster_sizes == [Counter(found.ids.tolist())[number] for number in range(5, 10)]
    np.testing.assert_allclose(pile.novel.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(pile.features, trained.features(images).numpy(), rtol=1e-2, atol=1e-3)
    confidence = pile.novel.max(1)
    np.testing.assert_allclose(found.confidence, confidence, atol=1e-4)


def test_without_truth_there_are_no_scores(digits: Dataset, tmp_path: Path) -> None:
    results = tiny_run(tmp_path / "blind", tiny_recipe("iic"), replace(digits, truth=None)).discover()
    assert results.task_aware is None
    assert results.task_agnostic is None
    assert [point.epoch for point in results.curves["discover"]] == [0, 1]  # none was evaluated: all are kept


def test_k_means_leaves_the_same(digits: Dataset, tmp_path: Path) -> None:
    results = tiny_run(tmp_path / "kmeans", tiny_recipe("kmeans"), digits).discover()
    assert results.task_aware is not None
    assert results.best_head == 0


def test_reused_pretraining_is_told(digits: Dataset, tmp_path: Path) -> None:
    first = tiny_run(tmp_path / "first", tiny_recipe("rs"), digits).discover()
    second = tiny_run(tmp_path / "second", tiny_recipe("rs+"), digits).discover()
    assert set(first.timing) == {"rotnet", "known", "discover"}
    assert set(second.timing) == {"discover"}
    assert second.reused["rotnet"].seconds == first.timing["rotnet"].seconds


@pytest.fixture
def _values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method with a paper's values for cifar10, ours for digits, and a variation."""
    published, ours = {"cifar10": {"alpha": 0.3}}, {"digits": {"epochs": 9, "hidden": 16}}
    entry = Entry("some", IIC, {}, published, ours, {"no-inter": {"alpha": 0}})
    monkeypatch.setitem(METHODS.items, "some", entry)


@pytest.mark.usefixtures("_values")
@pytest.mark.parametrize(
    ("source", "overrides", "name"),
    [
        (Source(benchmark="cifar10"), {}, "published"),
        (Source(benchmark="cifar10"), {"seed": 3, "mode": "eager", "precision": "bf16"}, "published"),
        (Source(benchmark="cifar10"), {"encoder": "small"}, "published"),  # what auto means for digits
        (Source(benchmark="cifar10"), {"encoder": "resnet18"}, "custom"),
        (Source(benchmark="cifar10"), {"alpha": 0.05}, "custom"),
        (Source(benchmark="cifar10"), {"pretrained": "some.pth"}, "custom"),
        (Source(benchmark="cifar10", subset=9), {}, "custom"),
        (Source(benchmark="digits"), {"alpha": 0}, "no-inter"),
        (Source(benchmark="digits"), {}, "newfound"),
        (Source(benchmark="cifar100-30"), {}, "default"),
        (Source(labelled="a", unlabelled="b", num_novel=5), {}, "default"),
        (Source(labelled="a", unlabelled="b", num_novel=5, estimated="dtc"), {}, "default"),
        (Source(benchmark="cifar10", num_novel=5, estimated="dtc"), {}, "custom"),
    ],
)
def test_whose_recipe_it_was(source: Source, overrides: dict[str, Any], name: str, digits: Dataset) -> None:
    recipe = recipe_for("some", source.name, {"device": "cpu"} | overrides)
    assert recipe_name(recipe, source, digits.split.look) == name


def line(stage: str, epoch: int, **scores: float) -> EpochLine:
    return EpochLine(
        stage=stage,
        epoch=epoch,
        lr=0.1,
        losses={},
        scores=scores,
        head_losses=[],
        seconds=1,
        images_per_second=1,
    )


def test_curves_keep_the_evaluated_epochs_or_all() -> None:
    lines = [line("pretrain", 0), line("pretrain", 1), line("discover", 0), line("discover", 1, acc=0.5)]
    kept = curves(lines)
    assert [point.epoch for point in kept["pretrain"]] == [0, 1]
    assert [(point.epoch, point.scores) for point in kept["discover"]] == [(1, {"acc": 0.5})]


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([3, 4, 5], []),
        ([4, 0, 4], ["Novel classes without images are left out (1 of 3): b."]),
        ([1, 1, 9], ["c holds 82%"]),
        ([5, 6], []),
        ([1, 20], ["b holds 95%"]),
    ],
)
def test_collapse_is_warned_of(sizes: list[int], words: list[str]) -> None:
    found = collapse_warnings(sizes, ["a", "b", "c"][: len(sizes)])
    assert len(found) == len(words)
    assert all(re.search(re.escape(word), line) for word, line in zip(words, found, strict=True))


@pytest.mark.parametrize(("known", "warned"), [(0, False), (10, False), (80, True)])
def test_known_classes_in_a_pile_are_warned_of(known: int, warned: bool) -> None:
    """Of 200 images, beside those of classes that are as near to known ones as these to each other."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(20, 64))
    labelled, pile = np.arange(400) % 10, np.r_[np.arange(known) % 10, 10 + np.arange(200 - known) % 10]
    near, far = (centres[rows] + random.normal(size=(len(rows), 64)) for rows in (labelled, pile))
    found = known_warnings(near, far, 10)
    assert len(found) == warned
    if found:
        share = re.fullmatch(r"About (\d+)% of the unlabelled images seem to be of known .*mixed.*", found[0])
        assert share
        assert 30 <= int(share[1]) <= 70


def test_assignments_survive_odd_names_and_refuse_other_files(tmp_path: Path) -> None:
    images = ["plain.png", 'quo"te,comma.png', "line\nbreak.png", "carriage\rreturn.png", " space "]
    flags, n = np.array([True, False, True, False, True]), len(images)
    classes = Classes(known=["cat"], novel=["novel-1"])
    given = Assignments(images, np.arange(n) % 2, np.linspace(0.5, 1, n), flags, 1)
    given.write(tmp_path / "a.csv", classes)
    again = Assignments.read(tmp_path / "a.csv", classes)
    assert list(again.images) == images
    assert (again.ids == given.ids).all()
    assert (again.unsorted == flags).all()
    assert (again.num_known, again.sizes(3)) == (1, [0, 2, 0])
    lines = (tmp_path / "a.csv").read_text()
    assert "plain.png,unsorted,unsorted,0.5000,cat" in lines
    assert '"quo""te,comma.png",novel-1,novel,0.6250,novel-1' in lines
    write_csv(tmp_path / "other.csv", COLUMNS[:-2], [("x", "novel-1", "novel")])
    for path, known in (("other.csv", ["cat"]), ("a.csv", ["somebody"])):
        with pytest.raises(RunError, match="not the file of this run's assignments"):
            Assignments.read(tmp_path / path, Classes(known=known, novel=["novel-1"]))


def test_an_image_of_a_mixed_pile_may_be_known(tmp_path: Path) -> None:
    mixed = load_benchmark("digits-mixed", subset=24)
    run = tiny_run(tmp_path / "mixed", tiny_recipe("simgcd"), mixed)
    results = run.discover()
    assert results.pile == "mixed"
    assert results.classes is not None
    assert results.known_sizes is not None
    found, pile = Assignments.read(run.folder.assignments, results.classes), Pile.read(run.folder.pile)
    assert pile.kind == "mixed"
    assert (found.ids == pile.logits.argmax(1)).all()
    np.testing.assert_allclose(found.confidence, pile.joint.max(1), atol=1e-4)
    assert [*results.known_sizes, *results.cluster_sizes] == found.sizes(10)
    assert results.generalised is not None
    last = [line for line in run.folder.read_metrics() if line.stage == "discover"][-1]
    assert last.scores["generalised.train.all"] == results.generalised.train.all.mean


def test_confidence_is_fitted_to_known_images_that_training_does_not_see(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    classes = np.repeat(np.arange(6), 90)
    vectors = np.eye(16)[classes] + 0.35 * random.standard_normal((540, 16))
    given = np.where((classes < 4) & (np.arange(540) % 90 < 80), classes, -1)
    data = from_embeddings(vectors, given, 2, pile="mixed")
    run = tiny_run(tmp_path / "run", recipe_for("centroids", "vectors", {"device": "cpu"}), data)
    results = run.discover()
    assert results.timing["discover"].seconds > 0  # without an epoch
    assert (results.calibration.images, results.calibration.error) == (32, None)
    seen, held = hold_back(data)
    assert held is not None
    assert not {*seen.split.labelled.names} & {*held[0].names}
    trained = Trained.load(run.folder)
    assert trained.method.task.num_labelled == len(seen.split.labelled) == 288
    logits = trained.scores(held[0])
    assert results.calibration.temperature == pytest.approx(temperature(logits, held[1]))
    pile = Pile.read(run.folder.pile)
    np.testing.assert_allclose(pile.joint, trained.shares(data.split.unlabelled), atol=1e-5)
    assert results.classes is not None
    found = Assignments.read(run.folder.assignments, results.classes)
    np.testing.assert_allclose(found.confidence, pile.joint.max(1), atol=1e-4)
    true = torch.from_numpy(classes[given < 0])
    truth = Truth(true, data.split.unlabelled, true)
    told = tiny_run(tmp_path / "told", run.recipe, replace(data, truth=truth)).discover()
    assert told.calibration.error == pytest.approx(0, abs=0.1)
    fewer = from_embeddings(vectors, np.where(np.arange(540) % 90 < 70, given, -1), 2, pile="mixed")
    assert hold_back(fewer) == (fewer, None)  # 28 images would be too few to fit it
