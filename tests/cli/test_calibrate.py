"""`newfound calibrate` tries settings on known classes, and never sees anything of the novel ones."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from newfound.cli.calibrate import place
from newfound.data.benchmarks import load_benchmark
from newfound.data.images import Dataset, ResidentImages, Truth
from newfound.engine.checkpoint import Checkpoint
from newfound.experiment import Folder, Source
from tests.cli.calls import DIGITS, TINY, changed, contents, refused, textures, works
from tests.cli.conftest import OwnImages

CALL = ("calibrate", "iic", *DIGITS, *TINY, "--seeds", "2")
TRIED = ("alpha=0.01,0.05", "beta=0.01,0")
KEYS = {
    *("record", "newfound", "method", "benchmark", "subset", "held_out", "config", "seeds", "candidates"),
    *("chosen", "commit", "versions", "hardware", "seconds"),
}


def recorded(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(path).read_text())
    return found


def test_every_combination_in_one_table_and_one_record() -> None:
    out = works(*CALL, *TRIED, "--record", "found/iic.json")
    for words in ("36 labelled images of 3 known classes", "held out: 3, 4", "classes 3, 4 held out"):
        assert words in " ".join(out.split())
    for words in ("at most 12 images", "task-aware ACC", "(n = 2)", "seconds", "written: found/iic.json"):
        assert words in out
    found = recorded("found/iic.json")
    assert found.keys() == KEYS
    assert (found["record"], found["method"], found["benchmark"]) == ("calibration", "iic", "digits")
    assert (found["held_out"], found["seeds"], found["subset"]) == (["3", "4"], [0, 1], 12)
    assert (found["config"]["epochs"], found["config"]["alpha"]) == (1, 0.01)
    pairs = [(0.01, 0.01), (0.01, 0.0), (0.05, 0.01), (0.05, 0.0)]
    assert [tuple(each["settings"].values()) for each in found["candidates"]] == pairs
    for each in found["candidates"]:
        first, second = each["acc"]
        assert each["mean"] == pytest.approx((first + second) / 2)
        assert each["std"] == pytest.approx(abs(first - second) / 2**0.5)
        assert each["seconds"] > 0
    best = max(found["candidates"], key=lambda each: each["mean"])
    assert found["chosen"] == best["settings"]
    marked = [line for line in out.splitlines() if line.rstrip().endswith("highest")]
    assert [line.split()[:2] for line in marked] == [[str(value) for value in best["settings"].values()]]
    # The network before discovery is the same for all of a seed.
    assert out.count("pretrain 1/1") == 2

    before = contents(Path("runs"))
    again = works(*CALL, *TRIED, "--record", "found/iic.json")
    assert "images/s" not in again
    assert contents(Path("runs")) == before
    assert recorded("found/iic.json") == found


@pytest.mark.parametrize(
    ("mean", "std", "said"),
    [
        (0.969, 0.001, "highest"),
        (0.968, 0.013, "not told apart"),
        (0.945, 0.025, "not told apart"),
        (0.94, 0.03, "not told apart"),
        (0.94, 0.013, ""),
        (0.968, None, "one seed cannot tell"),
        (None, None, ""),
    ],
)
def test_means_are_told_apart_where_they_differ_by_more_than_the_seeds(
    mean: float | None, std: float | None, said: str
) -> None:
    assert place({"mean": mean, "std": std}, {"mean": 0.969, "std": 0.025}) == said


def test_a_run_tells_what_was_held_out_and_opens_again() -> None:
    works(*CALL[:-2], "alpha=0.01,0.05", "--seeds", "1", "--hold-out", "3")
    path = Path("runs/calibrate/digits/iic/alpha=0.05-seed0")
    config = json.loads((path / "config.json").read_text())
    assert config["data"] == {"benchmark": "digits", "subset": 12, "held_out": 3}
    assert config["settings"]["alpha"] == 0.05
    dataset = Folder(path).source().load()
    assert (dataset.split.task.num_known, dataset.split.task.num_novel) == (2, 3)
    assert dataset.class_names == tuple("01234")
    results = json.loads((path / "results.json").read_text())
    assert (results["held_out"], results["recipe"]) == (3, "custom")
    acc = results["task_aware"]["train"]["acc"]["mean"]
    assert f"{100 * acc:.1f}" in works("evaluate", path)
    refused(2, (*CALL, "alpha=0.01,0.05", "--hold-out", "2"), "other values for held_out", "another --out")
    refused(2, (*CALL, "alpha=0.01,0.05", "--hold-out", "3", "beta=1"), "other values for beta")


def _without_novel(dataset: Dataset) -> Dataset:
    """Noise for every image of a novel class, and wrong labels for all of them."""
    split, truth, known = dataset.split, dataset.truth, dataset.split.task.num_known
    assert truth is not None
    random = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (len(split.unlabelled), 3, 8, 8), generator=random, dtype=torch.uint8)
    test = truth.test.take(torch.arange(len(truth.test)))
    test[truth.test_labels >= known] = 0
    pile = ResidentImages(noise, split.unlabelled.names)
    wrong = Truth(truth.labels.roll(7), ResidentImages(test, truth.test.names), truth.test_labels)
    names = (*dataset.class_names[:known], *"abcde")
    return replace(dataset, split=replace(split, unlabelled=pile), truth=wrong, class_names=names)


def test_nothing_of_the_novel_classes_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """From RotNet on: another pile of novel images and other labels of theirs change no number."""
    short = ("rotnet.epochs=1", "known.epochs=1", "epochs=2", "device=cpu")
    call = ("calibrate", "rs", *DIGITS, *short, "top=1,2", "--seeds", "1")
    works(*call, "--out", "true", "--record", "true.json")

    def corrupted(*arguments: Any) -> Dataset:
        return _without_novel(load_benchmark(*arguments))

    monkeypatch.setattr("newfound.experiment.source.load_benchmark", corrupted)
    assert Source("digits").load().class_names[5:] == tuple("abcde")
    works(*call, "--out", "false", "--record", "false.json")
    true, false = recorded("true.json"), recorded("false.json")
    for record in (true, false):
        for timed in (record, *record["candidates"]):
            timed.pop("seconds")
    assert true == false
    one, other = (Folder(Path(root) / "digits/rs/top=2-seed0") for root in ("true", "false"))
    assert one.assignments.read_text() == other.assignments.read_text()
    weights, same = (Checkpoint.load(folder.checkpoint).weights for folder in (one, other))
    assert all(torch.equal(weights[key], same[key]) for key in weights)


def test_own_images(tmp_path: Path) -> None:
    colours = {"ants": (160, 0, 0), "bees": (0, 160, 0), "crabs": (0, 0, 160), "dogs": (160, 160, 0)}
    for seed, (name, colour) in enumerate(colours.items()):
        textures(tmp_path / "known" / name, colour, 10, seed)
    textures(tmp_path / "pile", (0, 160, 160), 3, 4)
    own = ("--labelled", "known", "--unlabelled", "pile")
    call = ("calibrate", "iic", *TINY, "encoder=small", "alpha=0.01,0.05", "--seeds", "1")
    out = works(*call, *own, "--record", "own.json")
    assert "16 labelled images of 2 known classes, 16 unlabelled for 2 novel classes, 8 for test" in out
    assert recorded("own.json")["held_out"] == ["crabs", "dogs"]
    config = json.loads(Path("runs/calibrate/own/iic/alpha=0.01-seed0/config.json").read_text())
    known, pile = (str(tmp_path / name) for name in ("known", "pile"))
    assert config["data"] == {"labelled": known, "unlabelled": pile, "held_out": 2}
    refused(2, (*call, *own[:2]), "holding classes out needs images", "--unlabelled")
    refused(2, (*call, *own, "--data-dir", "."), "--data-dir", "own images")
    refused(2, (*call, *own, "--data", "digits"), "--data NAME", "--labelled")


def test_a_candidate_that_fails_is_not_chosen() -> None:
    call = (*changed(CALL[:-2], "lr=1e30,0.1", "epochs=3"), "--seeds", "1", "--record", "lr.json")
    out = works(*call)
    assert "lr=1e+30 seed 0: failed: " in out
    found = recorded("lr.json")
    assert found["chosen"] == {"lr": 0.1}
    assert [each["mean"] is None for each in found["candidates"]] == [True, False]
    assert found["candidates"][0]["acc"] == [None]
    none = changed(call[:-2], "lr=1e30,1e31")
    refused(1, none, "a candidate must finish with every seed", "none did")
    other = changed(call, "lr=0.1,0.2")
    refused(2, other, "--record must be a new file, or that of the same calibration", "lr.json")
    assert recorded("lr.json") == found


def test_it_stops_in_time_and_goes_on() -> None:
    call = (*changed(CALL, "alpha=0.01,0.05", "epochs=3"), "--record", "found.json")
    assert "stopped at a checkpoint; repeat the same call to go on" in works(*call, "--stop-after", "0s")
    assert not Path("found.json").exists()
    works(*call)
    assert Path("found.json").exists()


def test_finished_runs_on_other_images_are_not_taken_for_these(monkeypatch: pytest.MonkeyPatch) -> None:
    call = (*CALL[:-2], "alpha=0.01,0.05", "--seeds", "1")
    out = works(*call)
    assert (out.count("highest"), out.count("one seed cannot tell")) in ((1, 1), (2, 0))

    def others(*arguments: Any) -> Dataset:
        found = load_benchmark(*arguments)
        pixels = 255 - found.split.labelled.take(torch.arange(len(found.split.labelled)))
        inverted = ResidentImages(pixels, found.split.labelled.names)
        return replace(found, split=replace(found.split, labelled=inverted))

    monkeypatch.setattr("newfound.experiment.source.load_benchmark", others)
    refused(2, call, "must be those that the run began with", "have changed")


def test_a_record_of_something_else_is_kept() -> None:
    call = (*CALL, "alpha=0.01,0.05", "--record")
    Path("folder").mkdir()
    for name, text in (("a.json", "{}"), ("b.json", "[1]"), ("c.json", '{"record": "bench"}'), ("d", "\xff")):
        Path(name).write_text(text)
        refused(2, (*call, name), "--record must be a new file", name, "choose another name")
        assert Path(name).read_text() == text
    refused(2, (*call, "folder"), "--record must be a new file", "folder")
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ((), ("values to try", "commas", "newfound methods iic")),
        (("alpha=0.1",), ("values to try", "commas", "newfound methods iic")),
        (("alfa=1,2",), ("unknown setting 'alfa'", "'alpha'", "newfound methods iic")),
        (("alpha=1,2", "bita=2"), ("unknown setting 'bita'", "'beta'")),
        (("alpha=1,-2",), ("alpha", "greater than or equal to 0", "'-2'")),
        (("heads=2,two",), ("heads", "integer", "'two'")),
        (("alpha=1,",), ("alpha", "number", "''")),
        (("alpha",), ("key=value", "'alpha'")),
        (("alpha=1,2", "seed=3"), ("--seeds", "seed=3", "leave it out")),
        (("alpha=1,2", "--hold-out", "1"), ("--hold-out", "from 2 to 3 of 5", "got 1")),
        (("alpha=1,2", "--hold-out", "4"), ("--hold-out", "from 2 to 3 of 5", "got 4")),
        (("alpha=1,2", "--seeds", "0"), ("--seeds",)),
        (("alpha=1,2", "--stop-after", "soon"), ("--stop-after", "'soon'")),
        (("batch_size=1,2",), ("batch_size", "at least 2", "got 1")),
        (("alpha=1,1",), ("values to try must differ", "alpha=1,1")),
        (("pretrain.lr_falls=0.5,0.75",), ("no commas of their own", "pretrain.lr_falls")),
        (("encoder=small,smal",), ("unknown encoder 'smal'", "'small'")),
    ],
    ids=lambda value: " ".join(value),
)
def test_bad_calls_write_nothing(call: tuple[str, ...], words: tuple[str, ...], tmp_path: Path) -> None:
    refused(2, ("calibrate", "iic", *DIGITS, *call), *words)
    assert not list(tmp_path.iterdir())


def test_no_images_no_method_and_too_few_classes(images: OwnImages, tmp_path: Path) -> None:
    refused(2, ("calibrate", "iic", "alpha=1,2"), "needs images", "--data NAME", "--unlabelled")
    refused(2, ("calibrate", "icc", "alpha=1,2", *DIGITS), "unknown method 'icc'", "'iic'")
    call = ("calibrate", "iic", "alpha=1,2", *images.options[:4])
    refused(1, call, "at least 4 known classes", "got 3", "more classes")
    assert not list(tmp_path.iterdir())
