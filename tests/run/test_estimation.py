"""Estimates from images to a number: resumable, with nothing hidden ever used."""

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newfound.core.errors import DataError, RunError, UsageError
from newfound.core.registry import recipe_for
from newfound.data.dataset import Dataset
from newfound.data.holdout import hide_classes
from newfound.data.vectors import from_embeddings
from newfound.engine.checkpoint import Checkpoint
from newfound.run.events import Epoch, Event, Stopped, TrialDone
from newfound.run.folder import Folder
from newfound.run.models import Estimate
from newfound.run.run import Run
from tests.tiny import STAGE, tiny_recipe, tiny_run

TRAINING = {f"pretrain.{key}": value for key, value in STAGE.items()}
SEARCH: dict[str, Any] = {"max_novel": 4, "restarts": 2}
MEASURED = ("seconds", "provenance")


def asking(folder: Path, data: Dataset, search: dict[str, Any] | None = None, **settings: Any) -> Run:
    run = tiny_run(folder, tiny_recipe("iic", **(TRAINING | settings)), data)
    run.search = SEARCH | (search or {})
    return run


def content(found: Estimate) -> dict[str, Any]:
    return found.model_dump(exclude={*MEASURED, "source"})


@pytest.fixture(scope="module")
def made(digits: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Estimate]:
    """An estimate to be looked at, never changed."""
    folder = tmp_path_factory.mktemp("made") / "run"
    return folder, asking(folder, digits).estimate()


def test_what_is_recorded(made: tuple[Path, Estimate], digits: Dataset) -> None:
    folder, found = made
    run = asking(folder, digits)
    assert run.folder.read_estimate() == found
    assert [trial.extra for trial in found.curve] == [0, 1, 2, 3, 4]
    assert found.num_novel is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.num_novel <= found.high
    assert (found.num_known, found.num_hidden, found.algorithm) == (5, 3, "dtc")
    assert (found.settings["estimate.max_novel"], found.settings["pretrain.epochs"]) == (4, 2)
    assert run.estimate() == found  # finished: returned as it is


@pytest.mark.parametrize("algorithm", ["dtc", "gcd"])
def test_truth_and_the_true_number_change_nothing(algorithm: str, digits: Dataset, tmp_path: Path) -> None:
    assert digits.truth is not None
    truth = digits.truth
    shuffled = replace(truth, labels=truth.labels.flip(0), test_labels=truth.test_labels.flip(0))
    other = replace(digits.split, num_novel=9)
    datasets = (digits, replace(digits, truth=shuffled), replace(digits, truth=None, split=other))
    found = [
        content(asking(tmp_path / str(row) / "run", dataset, {"algorithm": algorithm}).estimate())
        for row, dataset in enumerate(datasets)
    ]
    assert found[0] == found[1] == found[2]


def test_the_network_knows_only_the_classes_it_is_shown(made: tuple[Path, Estimate]) -> None:
    saved = Checkpoint.load(made[0] / "estimate" / "probe" / "checkpoint.safetensors")
    assert (saved.state["task"]["num_known"], saved.state["task"]["num_novel"]) == (2, 0)
    assert len(saved.weights["h.prototypes"]) == 2


def test_gcd_hides_nothing_and_shares_the_pretraining_of_runs(digits: Dataset, tmp_path: Path) -> None:
    tiny_run(tmp_path / "run", tiny_recipe("iic", **TRAINING), digits).pretrain()
    seen: list[Event] = []
    run = asking(tmp_path / "gcd", digits, {"algorithm": "gcd"})
    run.watch = seen.append
    found = run.estimate()
    assert found.num_hidden == 0
    assert all(trial.silhouette is None for trial in found.curve)
    assert not any(isinstance(event, Epoch) for event in seen)


def test_it_stops_between_trials_and_goes_on(
    made: tuple[Path, Estimate], digits: Dataset, tmp_path: Path
) -> None:
    seen: list[int] = []

    def go(stop_after: int) -> Estimate:
        run = asking(tmp_path / "run", digits)
        run.watch = lambda event: seen.append(event.trial.extra) if isinstance(event, TrialDone) else None
        run.should_stop = lambda: len(seen) >= stop_after
        return run.estimate()

    with pytest.raises(Stopped):  # while the network is trained
        go(0)
    with pytest.raises(Stopped):
        go(2)
    kept = asking(tmp_path / "run", digits).folder.read_estimate()
    assert kept is not None
    assert kept.curve == made[1].curve[:2]
    assert kept.num_novel is None
    assert content(go(9)) == content(made[1])
    assert seen == [0, 1, 2, 3, 4]


def test_vectors_are_counted_without_training_and_after_a_stop(tmp_path: Path) -> None:
    classes = np.arange(9).repeat(20)
    random = np.random.default_rng(0)
    vectors = 4 * random.normal(size=(9, 16))[classes] + random.normal(size=(180, 16))
    data = from_embeddings(vectors, np.where(classes < 5, classes, -1))

    def go(folder: str, stop_after: int) -> Estimate:
        run = Run(Folder(tmp_path / folder), data, recipe_for("iic", "vectors"))
        run.search = {"max_novel": 8, "restarts": 2}
        asked = count(1)
        run.watch = lambda event: pytest.fail("all numbers are tried at once")
        run.should_stop = lambda: next(asked) >= stop_after
        return run.estimate()

    whole = go("whole", 99)
    assert (whole.algorithm, whole.num_hidden, whole.num_novel, whole.sample) == ("silhouette", 0, 4, None)
    with pytest.raises(Stopped):
        go("halves", 2)
    assert content(go("halves", 99)) == content(whole)


def test_of_many_vectors_a_sample_is_looked_at(tmp_path: Path) -> None:
    classes = np.arange(9).repeat(40)
    random = np.random.default_rng(0)
    vectors = 4 * random.normal(size=(9, 16))[classes] + random.normal(size=(360, 16))
    data = from_embeddings(vectors, np.where(classes < 5, classes, -1))
    run = Run(Folder(tmp_path / "run"), data, recipe_for("centroids", "vectors", {"sample": 80}))
    found = run.estimate()
    assert (found.sample, found.num_novel) == (80, 4)


@pytest.mark.parametrize("method", ["centroids", "gcd", "kmeans"])
def test_a_mixed_pile_of_known_classes_has_no_novel_one(method: str, tmp_path: Path) -> None:
    classes = np.arange(6).repeat(40)
    random = np.random.default_rng(0)
    vectors = 4 * random.normal(size=(6, 16))[classes] + random.normal(size=(240, 16))
    data = from_embeddings(vectors, np.where(np.arange(240) % 2, classes, -1), pile="mixed")
    run = Run(Folder(tmp_path / "run"), data, recipe_for(method, "vectors"))
    if method == "kmeans":
        with pytest.raises(DataError, match="look like known classes"):
            run.discover()
        return
    results = run.discover()
    assert results.estimate is not None
    assert (results.estimate.num_novel, results.cluster_sizes) == (0, [])


def test_another_question_is_refused(made: tuple[Path, Estimate], digits: Dataset) -> None:
    before = (made[0] / "estimate" / "estimate.json").read_bytes()
    labels = replace(digits, split=replace(digits.split, labels=digits.split.labels.flip(0)))
    for run, words in (
        (asking(made[0], digits, {"theta": 0.2}, seed=3), "estimate.theta, seed"),
        (asking(made[0], labels), "images"),
    ):
        with pytest.raises(UsageError, match=f"other values of {words}"):
            run.estimate()
    assert (made[0] / "estimate" / "estimate.json").read_bytes() == before


def test_a_damaged_file_names_its_field(digits: Dataset, tmp_path: Path) -> None:
    run = asking(tmp_path / "run", digits)
    run.folder.estimate.parent.mkdir(parents=True)
    for text in ("{", "[]", '{"curve": []}'):
        run.folder.estimate.write_text(text)
        with pytest.raises(RunError, match="not a valid Estimate"):
            run.estimate()


def test_too_few_known_classes_leave_no_trace(digits: Dataset, tmp_path: Path) -> None:
    few = replace(digits, split=hide_classes(digits.split, 1)[0])
    with pytest.raises(DataError, match="at least 5 known classes, got 4"):
        asking(tmp_path / "run", few, {"algorithm": "dtc"}).estimate()
    assert not list(tmp_path.iterdir())


def test_discovery_without_a_number_estimates_it_first(digits: Dataset, tmp_path: Path) -> None:
    unknown = replace(digits, truth=None, split=replace(digits.split, num_novel=None))
    run = asking(tmp_path / "run", unknown)
    results = run.discover()
    estimate = run.folder.read_estimate()
    assert estimate is not None
    assert results.estimate is not None
    assert results.classes is not None
    assert results.estimate.num_novel == estimate.num_novel == len(results.classes.novel)
    again = asking(tmp_path / "run", unknown)
    again.resume = True
    assert again.discover().cluster_sizes == results.cluster_sizes


def test_a_run_on_arrays_resumes_with_its_estimate(digits: Dataset, tmp_path: Path) -> None:
    """The fingerprint of the images does not depend on the number."""
    unknown = replace(digits, truth=None, source=None, split=replace(digits.split, num_novel=None))
    results = asking(tmp_path / "run", unknown).discover()
    again = asking(tmp_path / "run", unknown)
    again.resume = True
    assert again.discover().cluster_sizes == results.cluster_sizes


def test_a_run_that_has_only_pretrained_goes_on_with_a_number(digits: Dataset, tmp_path: Path) -> None:
    unknown = replace(digits, truth=None, source=None, split=replace(digits.split, num_novel=None))
    run = asking(tmp_path / "run", unknown)
    run.pretrain("pretrain")
    assert run.folder.read_estimate() is None
    known = tiny_run(tmp_path / "run", run.recipe, unknown.with_num_novel(3), resume=True)
    assert len(known.discover().cluster_sizes) == 3
    assert known.folder.request().source.num_novel == 3


def test_a_known_number_is_not_replaced_by_an_estimate(digits: Dataset, tmp_path: Path) -> None:
    tiny_run(tmp_path / "run", tiny_recipe("kmeans"), digits).discover()
    unknown = replace(digits, split=replace(digits.split, num_novel=None))
    with pytest.raises(UsageError, match="other values of estimated, num_novel"):
        tiny_run(tmp_path / "run", tiny_recipe("kmeans"), unknown, resume=True).discover()
