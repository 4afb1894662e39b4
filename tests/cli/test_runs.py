"""The verbs from beginning to end on a few digits."""

import csv
import errno
import json
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from newfound.cli.progress import EpochProgress
from newfound.core.config import Recipe
from newfound.core.registry import recipe_for
from newfound.engine.checkpoint import Checkpoint
from newfound.engine.trainer import EpochRecord
from newfound.experiment import Folder
from tests.cli.calls import DIGITS, SHORT, TINY, UNTRAINED, changed, contents, newfound, refused, works
from tests.cli.conftest import Finished

LONG = ("discover", "iic", *DIGITS, *changed(TINY, "epochs=100000"), "--out", "run")


def test_a_run_leaves_its_files(run: Finished) -> None:
    names = {path.name for path in run.path.iterdir() if path.is_file()}
    assert names == {
        "config.json",
        "metrics.jsonl",
        "checkpoint.safetensors",
        "results.json",
        "assignments.csv",
    }
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["epoch"]) for line in lines] == [("pretrain", 0), ("discover", 0)]
    state = Checkpoint.load(run.path / "checkpoint.safetensors").state
    assert (state["stage"], state["epoch"]) == ("discover", 1)


def test_the_config_is_resolved(run: Finished) -> None:
    config = json.loads((run.path / "config.json").read_text())
    assert (config["method"], config["data"]) == ("iic", {"benchmark": "digits", "subset": 12})
    assert config["settings"].keys() == recipe_for("iic", "digits").flat().keys()
    assert config["settings"]["hidden"] == 32
    assert config["settings"]["pretrain.batch_size"] == 24
    assert config["settings"]["tau"] == 0.1


def test_the_results_name_what_decided_them(run: Finished) -> None:
    results = json.loads((run.path / "results.json").read_text())
    keys = {"method", "recipe", "benchmark", "subset", "seed", "config", "commit", "versions", "hardware"}
    keys |= {"execution", "timing", "best_head", "curves", "cluster_sizes", "warnings"}
    assert keys | {"task_aware", "task_agnostic"} <= results.keys()
    assert (results["method"], results["recipe"], results["benchmark"]) == ("iic", "custom", "digits")
    assert results["task_aware"].keys() == {"train", "test"}
    assert results["task_agnostic"].keys() == {"legacy", "novel-ids", "joint"}


def test_every_unlabelled_image_is_assigned(run: Finished) -> None:
    with (run.path / "assignments.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 60
    flags = {"is_outlier", "looks_known"}
    assert rows[0].keys() == {"image", "class", "confidence", "nearest_known"} | flags
    assert {row["class"] for row in rows} <= {f"novel-{number}" for number in range(1, 6)}
    assert all(0 <= float(row["confidence"]) <= 1 for row in rows)
    sizes = json.loads((run.path / "results.json").read_text())["cluster_sizes"]
    assert Counter(row["class"] for row in rows) == Counter(
        {f"novel-{k + 1}": size for k, size in enumerate(sizes) if size}
    )


def test_a_pipe_gets_plain_whole_lines(run: Finished) -> None:
    assert "\x1b" not in run.out
    first = run.out.splitlines()[0]
    assert first.startswith("digits: 60 labelled images of 5 known classes, 60 unlabelled")
    assert first.endswith("at most 12 of each class")
    losses = [line for line in run.out.splitlines() if line.startswith("discover 1/1")]
    assert len(losses) == 1
    assert re.search(r"ACC .* images/s +ce .* over .* inter .* intra", losses[0])
    assert run.out.splitlines()[-1] == f"written: {run.path}/results.json, {run.path}/assignments.csv"


def test_evaluate_prints_both_protocols(run: Finished) -> None:
    out = works("evaluate", run.path)
    for words in (
        *("task-aware", "task-agnostic", "train", "test", "NMI", "ARI", "known", "novel", "all"),
        *("legacy", "novel-ids", "joint", "mean over heads", "head of lowest loss"),
    ):
        assert words in out
    stored = json.loads((run.path / "results.json").read_text())
    assert f"{100 * stored['task_aware']['train']['acc']['mean']:.2f}" in out
    assert "\x1b" not in out


def test_figures_of_one_run_and_of_two_side_by_side(run: Finished, tmp_path: Path) -> None:
    works("discover", "kmeans", *DIGITS, *UNTRAINED, "--out", tmp_path / "other")
    names = ("tsne", "confusion-task-aware", "confusion-task-agnostic")
    expected = {f"{name}.{kind}" for name in names for kind in ("png", "pdf")}
    copy = shutil.copytree(run.path, tmp_path / "copy")
    for call, folder, more in (
        (("figures", copy), copy / "figures", {"curves.png"}),
        (("figures", "--compare", tmp_path / "other", copy, "--out", "two"), Path("two"), set()),
    ):
        printed = works(*call).splitlines()
        assert set(printed) == {str(folder / name) for name in expected | more}
        for path in map(Path, printed):
            assert path.read_bytes().startswith({".png": b"\x89PNG", ".pdf": b"%PDF"}[path.suffix])


def test_figures_are_drawn_over_those_of_one_run_and_over_nothing_else(run: Finished, tmp_path: Path) -> None:
    copy = shutil.copytree(run.path, tmp_path / "copy")
    works("figures", copy)
    works("figures", copy)
    Path("mine").mkdir()
    Path("mine/tsne.pdf").write_text("my own picture")
    refused(2, ("figures", copy, "--out", "mine"), "mine/tsne.pdf is something else", "another --out")
    assert [path.read_text() for path in Path("mine").iterdir()] == ["my own picture"]
    works("figures", "--compare", copy, copy, "--out", "two")
    refused(2, ("figures", copy, "--out", "two"), "two/tsne.png is something else")


def test_pretraining_is_reused_where_it_matches(tmp_path: Path) -> None:
    said = works("pretrain", "iic", *DIGITS, *TINY, "--out", "runs/first")
    assert "pretrained: weights are in runs/pretrained" in said
    assert "hidden, projection have no effect here: only pretrain is trained; pretrain.epochs" in said
    (made,) = Path("runs/pretrained").iterdir()
    same = works("discover", "uno-v2", *DIGITS, *TINY, "--out", "runs/same")
    assert f"pretrain: reusing {made}" in same
    assert "pretrain 1/1" not in same
    other = works("discover", "iic", *DIGITS, *TINY, "seed=1", "--out", "runs/other")
    assert "reusing" not in other
    assert "pretrain 1/1" in other
    given = works("discover", "iic", *DIGITS, *TINY, "seed=1", "--pretrained", made, "--out", "x/given")
    assert f"tensors from {made.absolute()}" in given
    assert "pretrain 1/1" not in given


def test_damaged_pretraining_is_made_again() -> None:
    works("pretrain", "iic", *DIGITS, *TINY, "--out", "runs/first")
    (made,) = Path("runs/pretrained").iterdir()
    whole = Checkpoint.load(made)
    made.write_bytes(made.read_bytes()[:100])
    out = works("discover", "iic", *DIGITS, *TINY, "--out", "runs/second")
    assert f"{made} is damaged, so it is trained again" in out
    assert Checkpoint.load(made).weights.keys() == whole.weights.keys()


def test_stop_after_ends_at_a_checkpoint_and_resume_goes_on() -> None:
    out = works(*LONG, "--stop-after", "0.5s")
    assert "stopped at a checkpoint in run; repeat the same call with --resume to go on" in out
    first = Checkpoint.load(Path("run/checkpoint.safetensors")).state
    assert first["stage"] == "discover"
    works(*LONG, "--stop-after", "0.1s", "--resume")
    second = Checkpoint.load(Path("run/checkpoint.safetensors")).state
    assert second["epoch"] > first["epoch"]
    assert second["lines"][: len(first["lines"])] == first["lines"]


def test_pretraining_stops_and_resumes_too() -> None:
    call = ("pretrain", "iic", *DIGITS, *changed(TINY, "pretrain.epochs=100000"), "--out", "run")
    assert "--resume" in works(*call, "--stop-after", "0.1s")
    refused(1, ("evaluate", "run"), "still in pretrain", "--resume")
    refused(2, ("predict", "run", "."), "must hold a finished run", "--resume")
    works(*call, "--stop-after", "0.1s", "--resume")


def test_resuming_a_finished_run_says_its_results_again(run: Finished, tmp_path: Path) -> None:
    copy, changed = shutil.copytree(run.path, tmp_path / "run"), "the code of iic has changed"
    call = ("discover", "iic", *DIGITS, *TINY, "--out", copy, "--resume")
    out = works(*call)
    assert "1/1" not in out
    assert changed not in out
    assert "written: " in out
    before, after = (
        json.loads((folder / "results.json").read_text())["task_aware"] for folder in (run.path, copy)
    )
    assert before == after
    config = json.loads((copy / "config.json").read_text())
    assert len(config["digest"]) == 16
    (copy / "config.json").write_text(json.dumps(config | {"digest": "0123"}))
    assert changed in works(*call)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_saves_and_says_how_to_go_on(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: at the end of the epoch. Twice: at once, with what the last checkpoint holds."""

    class Impatient(EpochProgress):
        def __call__(self, record: EpochRecord, scores: dict[str, float]) -> None:
            if record.stage == "discover":
                for _ in range(times):
                    signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("newfound.cli.train.EpochProgress", Impatient)
    before = signal.getsignal(signal.SIGINT)
    done = newfound(*LONG)
    assert done.code == 130
    assert "Ctrl-C: stopping at the end of this epoch" in done.out
    assert done.err.endswith("; repeat the same call with --resume to go on\n")
    assert signal.getsignal(signal.SIGINT) is before
    state = Checkpoint.load(Path("run/checkpoint.safetensors")).state
    assert (state["stage"], state["epoch"]) == (("discover", 1) if times == 1 else ("pretrain", 1))


@pytest.mark.parametrize(
    ("verb", "go_on"),
    [
        (("discover", "iic", *DIGITS, *TINY), "repeat the same call with --resume to go on"),
        (("estimate", "iic", "device=cpu", *DIGITS), "repeat the same call with --resume to go on"),
        (("compare", "iic", *DIGITS), "repeat the same call to go on"),
        (("reproduce", "digits", "iic"), "repeat the same call to go on"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_ctrl_c_twice_says_what_each_verb_has(
    verb: tuple[str, ...], go_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impatient(self: EpochProgress, record: EpochRecord, scores: dict[str, float]) -> None:
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(EpochProgress, "__call__", impatient)
    refused(130, verb, "Ctrl-C came twice", f"; {go_on}\n")


@pytest.mark.parametrize(
    "verb",
    [("estimate", "iic", "device=cpu", *DIGITS), ("compare", "iic", *DIGITS)],
    ids=lambda verb: verb[0],
)
def test_ctrl_c_at_a_checkpoint_has_an_exit_code_of_its_own(
    verb: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def patient(self: EpochProgress, record: EpochRecord, scores: dict[str, float]) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(EpochProgress, "__call__", patient)
    refused(130, verb, "stopped", "to go on\n")


def test_ctrl_c_in_a_process_of_its_own() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "newfound", *LONG],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while not process.stdout.readline().startswith("discover 1/"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    told = "error: stopped at a checkpoint in run; repeat the same call with --resume to go on\n"
    assert (process.returncode, err) == (130, told)
    assert "Ctrl-C: stopping at the end of this epoch" in out
    works(*LONG, "--stop-after", "0.1s", "--resume")


def test_no_epochs_evaluates_what_was_pretrained() -> None:
    out = works("discover", "iic", *DIGITS, *changed(TINY, "epochs=0"), "--out", "run")
    assert "discover 1/" not in out
    assert "task-agnostic" in works("evaluate", "run")


@pytest.mark.parametrize("method", ["iic", "kmeans"])
def test_a_batch_may_be_larger_than_the_data(method: str) -> None:
    short = {
        "iic": (*SHORT, "pretrain.batch_size=5000"),
        "kmeans": ("rotnet.epochs=1", "known.epochs=1", "rotnet.batch_size=5000", "known.batch_size=5000"),
    }
    out = works("discover", method, *DIGITS, *short[method], "batch_size=5000", "--out", "run")
    results = Folder(Path("run")).read_results()
    images = {stage: timing["images"] for stage, timing in results["timing"].items()}
    once = {"iic": {"pretrain": 60, "discover": 120}, "kmeans": {"rotnet": 120, "known": 60}}
    assert images == once[method]
    said = [line for line in out.splitlines() if line.endswith(" images, for there are no more")]
    assert said == [
        f"{stage}: batches have {number} images, for there are no more" for stage, number in images.items()
    ]
    assert sum(results["cluster_sizes"]) == 60


def test_the_default_folder() -> None:
    works("discover", "kmeans", *DIGITS, *UNTRAINED)
    assert Folder(Path("runs/digits-kmeans")).results.exists()


def tiny(method: str, benchmark: str, overrides: dict[str, object]) -> Recipe:
    wanted = dict(setting.split("=") for setting in TINY)
    known = recipe_for(method, benchmark, {"track": overrides["track"]}).flat()
    narrow = {key: value for key, value in wanted.items() if key in known}
    return recipe_for(method, benchmark, narrow | overrides | ({"epochs": 0} if method == "kmeans" else {}))


def test_the_demo_compares_and_makes_room_only_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newfound.cli.demo.recipe_for", tiny)
    monkeypatch.setattr("newfound.cli.demo.figures", lambda runs, folder: [folder / "tsne.png"])
    for _ in range(2):
        out = works("demo")
    for words in ("raw pixels", "pretrained features", "UNO v2", "IIC", "task-aware", "task-agnostic"):
        assert words in out
    assert Path("runs/demo/results.json").exists()
    assert "5 new classes in" in Path("runs/demo/report.html").read_text(encoding="utf-8")
    assert "to look at what was found, open runs/demo/report.html" in out
    works("discover", "kmeans", *DIGITS, *UNTRAINED, "--out", "runs/demo/mine")
    Path("runs/demo/notes.txt").write_text("mine")
    works("demo")
    assert Path("runs/demo/mine/results.json").exists()
    assert Path("runs/demo/notes.txt").read_text() == "mine"
    refused(2, ("demo", "--out", "runs"), "runs", "choose another --out")
    refused(2, ("demo", "--out", "runs/demo/config.json"), "choose another --out")
    assert [path.name for path in Path("runs").iterdir()] == ["demo"]
    Path("runs/demo/trust").mkdir()
    refused(2, ("demo",), "your trial of an earlier demo", "runs/demo/trust", "choose another --out")


@pytest.mark.parametrize("fails", ["newfound.cli.demo.demo_table", "newfound.cli.demo.Path.rename"])
def test_a_demo_that_is_not_finished_replaces_nothing(fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newfound.cli.demo.recipe_for", tiny)
    monkeypatch.setattr("newfound.cli.demo.figures", lambda runs, folder: [folder / "tsne.png"])
    works("demo")
    Path("runs/demo/figures").mkdir(exist_ok=True)
    Path("runs/demo/figures/own.png").write_text("mine")
    before = contents(Path("runs"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    monkeypatch.setattr(fails, full)
    refused(1, ("demo",), "runs/demo must be writable; got: the disk is full")
    assert contents(Path("runs")) == before


def test_figures_of_a_run_without_epochs_leave_the_curves_out(tmp_path: Path) -> None:
    works("discover", "kmeans", *DIGITS, *UNTRAINED, "--out", tmp_path / "run")
    out = works("figures", tmp_path / "run")
    assert "tsne.png" in out
    assert "curves" not in out
