"""compare, calibrate and reproduce on a few digits."""

import csv
import gc
import json
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from newfound.core import registry
from newfound.core.encoder import Encoder, Preprocessing
from newfound.core.files import read_record
from newfound.core.learner import Learner
from newfound.core.source import Source
from newfound.data import load
from newfound.data.dataset import Dataset, Truth
from newfound.data.images import ResidentImages
from newfound.data.loader import Draw
from newfound.engine.checkpoint import Checkpoint
from newfound.engine.step import Step
from newfound.lab.calibrate import CalibrationRecord, Outcome, verdict
from newfound.run.folder import Folder
from newfound.run.models import Results
from tests.cli.calls import DIGITS, TINY, changed, contents, newfound, refused, textures, works
from tests.cli.conftest import OwnImages

pytestmark = pytest.mark.slow

QUICK = dict(setting.split("=") for setting in TINY)
COMPARE = ("compare", "uno-v1", "uno-v2", "--data", "digits", "--subset", "8")
CALIBRATE = ("calibrate", "iic", *DIGITS, *TINY)
REPRODUCE = ("reproduce", "digits", "iic", "--recipe", "tiny")


def quick(monkeypatch: pytest.MonkeyPatch, name: str, **changes: Any) -> None:
    """A method whose recipe for digits ends in a moment."""
    entry = registry.method_entry(name)
    ours = {"digits": {**entry.values_for("digits")[1], **QUICK}}
    monkeypatch.setitem(registry.METHODS.items, name, replace(entry, **({"ours": ours} | changes)))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("uno-v1", "uno-v2"):
        quick(monkeypatch, name)
    quick(monkeypatch, "iic", variations={"tiny": QUICK | {"epochs": 2}}, ours={})


def test_methods_side_by_side_reusing_finished_runs() -> None:
    out = works(*COMPARE)
    place = Path("runs/compare/digits-8-of-each/published")
    assert "at most 8 images of each class, published track, newfound settings" in " ".join(out.split())
    assert "uno-v2 seed 0: pretrain: reusing" in out
    for suffix in ("csv", "md", "tex"):
        assert "uno-v2" in (place / f"comparison.{suffix}").read_text()
    assert Folder(place / "uno-v2-seed0").request().command == " ".join(["newfound", *COMPARE])
    again = works(*COMPARE)
    assert "images/s  ce" not in again
    assert (
        f"Reused from {place}: uno-v1-seed0, uno-v2-seed0. Delete a folder there to train it again." in again
    )
    # The terminal shows the methods of the call, the files all runs with the same images and settings.
    for seed, subset, settings in ((10, 8, {}), (11, 9, {}), (12, 8, {"lr": 0.5})):
        copy_run(place / "uno-v2-seed0", seed, subset, **settings)
    assert "uno-v2" not in works("compare", "uno-v1", *COMPARE[3:])
    with (place / "comparison.csv").open(newline="") as file:
        rows = [(row["method"], row["settings"], row["n"]) for row in csv.DictReader(file)]
    assert rows == [("uno-v1", "newfound", "1"), ("uno-v2", "newfound", "2")]
    folder = Folder(place / "uno-v1-seed0")
    other = folder.request().model_copy(update={"versions": {"discover": 0}})
    folder.config.write_text(other.model_dump_json())
    refused(2, COMPARE, "The code of uno-v1 has changed since", "Delete that folder")


def copy_run(folder: Path, seed: int, subset: int, **settings: float) -> None:
    """The record of a run once more, as that of another."""
    results = json.loads((folder / "results.json").read_text())
    results |= {"seed": seed, "subset": subset, "config": results["config"] | {"seed": seed} | settings}
    copy = folder.with_name(f"uno-v2-seed{seed}")
    copy.mkdir()
    (copy / "results.json").write_text(json.dumps(results))
    (copy / "config.json").write_text((folder / "config.json").read_text())


def test_a_method_that_runs_out_of_memory_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is free by then, though no garbage collection was due."""
    call, failed = Step.__call__, list[weakref.ref[Learner]]()

    def fail_once(self: Step, draw: Draw, following: Draw | None = None) -> None:
        if self.loader.stage == "discover" and not failed:
            failed.append(weakref.ref(self.learner))
            raise torch.OutOfMemoryError("CUDA out of memory")
        assert not failed or failed[0]() is None
        call(self, draw, following)

    monkeypatch.setattr(Step, "__call__", fail_once)
    gc.disable()
    try:
        done = newfound(*COMPARE)
    finally:
        gc.enable()
    assert done.code == 1
    assert "uno-v1 seed 0: warning: failed: " in done.out
    assert done.err == "error: These runs failed, as shown above: uno-v1 seed 0.\n"
    with Path("runs/compare/digits-8-of-each/published/comparison.csv").open(newline="") as file:
        assert [row["method"] for row in csv.DictReader(file)] == ["uno-v2"]


def test_every_combination_in_one_table_and_one_record() -> None:
    call = (*CALIBRATE, "alpha=0.01,0.05", "beta=0.01,0", "--seeds", "2", "--record", "found/iic.json")
    out = works(*call)
    assert "36 labelled images of 3 known classes" in out
    for words in ("known classes 3, 4 held out", "at most 12 images", "task-aware ACC", "(n = 2)"):
        assert words in " ".join(out.split())
    found = read_record(Path("found/iic.json"), CalibrationRecord)
    assert (found.method, found.benchmark, found.subset) == ("iic", "digits", 12)
    assert (found.held_out, found.seeds, found.config["epochs"]) == (["3", "4"], [0, 1], 1)
    pairs = [(0.01, 0.01), (0.01, 0.0), (0.05, 0.01), (0.05, 0.0)]
    assert [tuple(each.settings.values()) for each in found.candidates] == pairs
    for each in found.candidates:
        first, second = (acc or 0.0 for acc in each.acc)
        assert each.mean == pytest.approx((first + second) / 2)
        assert each.std == pytest.approx(abs(first - second) / 2**0.5)
    best = max(found.candidates, key=lambda each: each.mean or 0.0)
    assert found.chosen == best.settings
    assert out.count("pretrain 1/1") == 2  # the same for all candidates of a seed
    before = contents(Path("runs"))
    again = works(*call[:-2])
    assert "images/s" not in again
    assert contents(Path("runs")) == before
    assert read_record(Path("found/iic.json"), CalibrationRecord) == found
    source = Folder(Path("runs/calibrate/digits/iic/alpha=0.05,beta=0.0-seed0")).request().source
    assert (source.benchmark, source.held_out) == ("digits", 2)
    refused(2, (*call[:-2], "--hold-out", "3"), "other values of held_out")


@pytest.mark.parametrize(
    ("mean", "std", "said"),
    [
        (0.969, 0.001, "highest"),
        (0.945, 0.025, "within the spread"),
        (0.94, 0.03, "within the spread"),
        (0.94, 0.013, ""),
        (0.968, None, "one seed is not enough"),
        (None, None, ""),
    ],
)
def test_candidates_differ_by_more_than_the_spread_of_seeds(
    mean: float | None, std: float | None, said: str
) -> None:
    highest = Outcome(settings={}, acc=[], mean=0.969, std=0.025)
    assert verdict(Outcome(settings={}, acc=[], mean=mean, std=std), highest) == said


def _without_novel(data: Dataset) -> Dataset:
    """Noise for every image of a novel class, and wrong labels for all of them."""
    split, truth, known = data.split, data.truth, data.num_known
    assert truth is not None
    random = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (len(split.unlabelled), 3, 8, 8), generator=random, dtype=torch.uint8)
    test = truth.test.take(torch.arange(len(truth.test)))
    test[truth.test_labels >= known] = 0
    pile = ResidentImages(noise, split.unlabelled.names)
    wrong = Truth(truth.labels.roll(7), ResidentImages(test, truth.test.names), truth.test_labels)
    return replace(data, split=replace(split, unlabelled=pile), truth=wrong)


def test_calibration_uses_nothing_of_the_novel_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """From RotNet on: other novel images and labels change no number."""
    short = ("rotnet.epochs=1", "known.epochs=1", "epochs=2", "device=cpu")
    call = ("calibrate", "rs", *DIGITS, *short, "top=1,2", "--seeds", "1")
    works(*call, "--out", "true", "--record", "true.json")
    corrupted = _without_novel(load(Source(benchmark="digits", subset=12)))
    monkeypatch.setattr("newfound.cli.research.load_data", lambda *source: corrupted)
    works(*call, "--out", "false", "--record", "false.json")
    true, false = (read_record(Path(name), CalibrationRecord) for name in ("true.json", "false.json"))
    assert [each.acc for each in true.candidates] == [each.acc for each in false.candidates]
    one, other = (Folder(Path(root) / "digits/rs/top=2-seed0") for root in ("true", "false"))
    assert one.assignments.read_text() == other.assignments.read_text()
    weights, same = (Checkpoint.load(folder.checkpoint).weights for folder in (one, other))
    assert all(torch.equal(weights[key], same[key]) for key in weights)


def test_calibration_on_own_images(tmp_path: Path, images: OwnImages) -> None:
    colours = {"ants": (160, 0, 0), "bees": (0, 160, 0), "crabs": (0, 0, 160), "dogs": (160, 160, 0)}
    for seed, (name, colour) in enumerate(colours.items()):
        textures(tmp_path / "known" / name, colour, 10, seed)
    textures(tmp_path / "pile", (0, 160, 160), 3, 4)
    call = ("calibrate", "iic", *TINY, "encoder=small", "alpha=0.01,0.05", "--seeds", "1")
    own = ("--labelled", "known", "--unlabelled", "pile")
    out = works(*call, *own, "--record", "own.json")
    assert "16 labelled images of 2 known classes, 16 unlabelled images of 2 novel classes" in out
    assert read_record(Path("own.json"), CalibrationRecord).held_out == ["crabs", "dogs"]
    refused(2, (*call, *own[:2]), "--unlabelled")
    refused(2, (*call, *images.options[:4]), "known classes")


def test_a_candidate_that_fails_is_not_chosen() -> None:
    call = (*changed(CALIBRATE, "lr=1e30,0.1", "epochs=3"), "--seeds", "1", "--record", "lr.json")
    out = works(*call)
    assert "lr=1e+30 seed 0: warning: failed: " in out
    found = read_record(Path("lr.json"), CalibrationRecord)
    assert found.chosen == {"lr": 0.1}
    assert [each.acc == [None] for each in found.candidates] == [True, False]
    refused(1, changed(call[:-2], "lr=1e29,1e30"), "No candidate finished with every seed.")
    refused(2, changed(call, "lr=0.1,0.2"), "lr.json already exists")
    assert read_record(Path("lr.json"), CalibrationRecord) == found


def test_calibration_stops_in_time_and_continues() -> None:
    call = (*changed(CALIBRATE, "alpha=0.01,0.05", "epochs=3"), "--seeds", "1", "--record", "found.json")
    out = works(*call, "--stop-after", "0s")
    assert "Stopped at a checkpoint. Repeat the command to continue." in out
    assert not Path("found.json").exists()
    works(*call)
    assert Path("found.json").exists()


def test_finished_runs_on_other_images_are_not_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    call = (*CALIBRATE, "alpha=0.01,0.05", "--seeds", "1")
    works(*call)
    found = load(Source(benchmark="digits", subset=12))
    pixels = 255 - found.split.labelled.take(torch.arange(len(found.split.labelled)))
    inverted = ResidentImages(pixels, found.split.labelled.names)
    others = replace(found, split=replace(found.split, labelled=inverted))
    monkeypatch.setattr("newfound.cli.research.load_data", lambda *source: others)
    refused(1, call, "changed")


def test_a_recipe_is_recorded_once_for_each_seed() -> None:
    call = (*REPRODUCE, "--seeds", "0,1", "--note", "on a busy machine")
    assert "Stopped at a checkpoint. Repeat the command" in works(*call, "--stop-after", "0s")
    assert not Path("results").exists()
    said = works(*call)
    assert "recorded: results/digits/iic-tiny-seed1.json" in said
    records = [read_record(Path(f"results/digits/iic-tiny-seed{seed}.json"), Results) for seed in (0, 1)]
    assert [(each.seed, each.recipe, each.note) for each in records] == [
        (seed, "tiny", "on a busy machine") for seed in (0, 1)
    ]
    assert "already recorded: results/digits/iic-tiny-seed1.json" in works(*call)


def test_the_papers_estimate_is_a_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newfound.lab.batch.ESTIMATES", {"digits": 6})
    quick(monkeypatch, "iic", variations={"appendix": {"alpha": 0.04}})
    works("reproduce", "digits", "iic", "--recipe", "estimated")
    record = read_record(Path("results/digits/iic-estimated-seed0.json"), Results)
    assert (record.recipe, len(record.cluster_sizes), record.config["alpha"]) == ("estimated", 6, 0.04)
    refused(2, ("reproduce", "cifar10", "iic", "--recipe", "estimated"), "Unknown recipe of iic on cifar10")


def test_vectors_of_a_frozen_encoder_are_recorded_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    half = Preprocessing(4, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    registry.ENCODERS.load()
    monkeypatch.setattr(registry.ENCODERS, "items", dict(registry.ENCODERS.items))
    monkeypatch.setattr(registry.ENCODERS, "descriptions", dict(registry.ENCODERS.descriptions))
    registry.register_encoder("flat")(lambda: Encoder.of(torch.nn.Flatten(), 48, half))
    works("reproduce", "digits", "kmeans", "--encoder", "flat")
    record = read_record(Path("results/vectors/flat/digits/kmeans-seed0.json"), Results)
    assert record.benchmark == "digits"
    assert record.embedded_by
    assert record.embedded_by.encoder == "flat"
    refused(2, ("reproduce", "digits", "kmeans", "--encoder", "small"), "Only a pretrained encoder can embed")


def test_a_variation_that_changes_nothing_is_the_usual_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch, "iic", variations={"same": {"epochs": 1}})
    said = works("reproduce", "digits", "iic", "--recipe", "same")
    assert "same changes nothing for iic on digits: running the usual recipe." in said
    assert read_record(Path("results/digits/iic-seed0.json"), Results).recipe == "newfound"


def _wrong_calls() -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    compare, calibrate = ("compare", "iic", "--data", "digits"), ("calibrate", "iic", *DIGITS)
    yield ("compare", "epochs=2", *compare[2:]), ("Unknown method 'epochs=2'",)
    yield ("compare", "iic", "icc", *compare[2:]), ("Unknown method 'icc'", "'iic'")
    yield (*compare, "--track", "fair"), ("--track", "'published'", "'fair'")
    yield ("compare", "iic"), ("--data",)
    yield (*calibrate, "alpha=0.1"), ("several values to try", "lr=0.03,0.1")
    yield (*calibrate, "alfa=1,2"), ("Unknown setting 'alfa'", "'alpha'")
    yield (*calibrate, "alpha=1,-2"), ("alpha", "at least 0", "'-2'")
    yield (*calibrate, "alpha=1,"), ("alpha", "number", "''")
    yield (*calibrate, "alpha=1,2", "seed=3"), ("--seeds",)
    yield (*calibrate, "alpha=1,2", "--hold-out", "4"), ("4", "Leave out --hold-out")
    yield ("calibrate", "iic", "alpha=1,2"), ("Use --data NAME, or --labelled and --unlabelled.",)
    yield ("reproduce", "digits", "iic", "--recipe", "tin"), ("'tin'", "Did you mean 'tiny'?")
    yield ("reproduce", "digits", "rs", "--recipe", "match"), ("'matched'",)
    yield ("reproduce", "digits", "iic", "--seeds", "a"), ("--seeds", "'a'")
    yield ("reproduce", "iic", "cifar10"), ("Unknown method 'cifar10'",)
    yield ("reproduce", "iic", "rs"), ("Unknown benchmark 'iic'",)


@pytest.mark.parametrize(("call", "words"), [*_wrong_calls()], ids=lambda value: " ".join(value))
def test_wrong_calls_write_nothing(call: tuple[str, ...], words: tuple[str, ...]) -> None:
    refused(2, call, *words)
    assert not list(Path().iterdir())
