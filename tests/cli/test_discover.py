"""discover, report and the demo on a few digits, from beginning to end."""

import csv
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from newfound.cli.progress import Progress
from newfound.cli.signals import Stopping
from newfound.core.registry import recipe_for
from newfound.core.settings import Overrides, Recipe
from newfound.engine.checkpoint import Checkpoint
from newfound.run.events import Epoch, Event
from newfound.run.folder import Folder
from tests.cli.calls import DIGITS, TINY, UNTRAINED, changed, contents, newfound, refused, works
from tests.cli.conftest import Finished

pytestmark = pytest.mark.slow

LONG = ("discover", "iic", *DIGITS, *changed(TINY, "epochs=100000"), "--out", "run")


def state_of(folder: str | Path) -> tuple[str, int]:
    state = Checkpoint.load(Path(folder) / "checkpoint.safetensors").state
    return state["stage"], state["epoch"]


def test_a_run_leaves_its_files(run: Finished) -> None:
    names = {path.name for path in run.path.iterdir() if path.is_file() and not path.name.startswith(".")}
    assert names == {
        *("config.json", "metrics.jsonl", "checkpoint.safetensors", "results.json"),
        *("assignments.csv", "pile.safetensors"),
    }
    folder = Folder(run.path)
    lines = [(line.stage, line.epoch) for line in folder.read_metrics()]
    assert lines == [("pretrain", 0), ("discover", 0)]
    assert state_of(run.path) == ("discover", 1)
    request, results = folder.request(), folder.read_results()
    assert (request.method, request.source.benchmark, request.source.subset) == ("iic", "digits", 12)
    assert request.settings.keys() == recipe_for("iic", "digits").flat().keys()
    assert request.command == " ".join(["newfound", *run.call])
    assert (results.method, results.recipe, results.benchmark) == ("iic", "custom", "digits")
    with folder.assignments.open(newline="") as file:
        rows = list(csv.DictReader(file))
    sizes = {f"novel-{k + 1}": size for k, size in enumerate(results.cluster_sizes) if size}
    assert Counter(row["class"] for row in rows) == sizes
    assert sum(sizes.values()) == 60


def test_a_pipe_gets_plain_unfolded_lines(run: Finished) -> None:
    assert "\x1b" not in run.out
    lines = run.out.splitlines()
    assert lines[0].startswith("digits: 60 labelled images of 5 known classes, 60 unlabelled")
    (epoch,) = (line for line in lines if line.startswith("discover 1/1"))
    assert re.search(r"ACC .* images/s +ce .* over .* inter .* intra", epoch)
    assert lines[-1] == f"written: {run.path}/results.json, {run.path}/assignments.csv"


def test_report_prints_both_protocols_and_draws(run: Finished, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run.path, tmp_path / "copy"))
    out = works("report", copy, "--figures", "drawn")
    for words in (
        *("task-aware", "task-agnostic", "train", "test", "NMI", "ARI", "known", "novel", "all"),
        *("legacy", "novel-ids", "joint", "mean over heads", "head of lowest loss"),
    ):
        assert words in out
    report = Folder(copy).read_results().task_aware
    assert report is not None
    assert f"{100 * (report.train.acc.mean or 0):.2f}" in out
    assert f"written: {copy}/report.html" in out
    page = (copy / "report.html").read_text(encoding="utf-8")
    assert "newfound discover iic" in page
    names = ("tsne", "confusion-task-aware", "confusion-task-agnostic")
    expected = {f"{name}.{kind}" for name in names for kind in ("png", "pdf")}
    assert {path.name for path in Path("drawn").iterdir()} == expected | {"curves.png"}
    for path in Path("drawn").iterdir():
        assert path.read_bytes().startswith({".png": b"\x89PNG", ".pdf": b"%PDF"}[path.suffix])
    works("report", copy, "--figures", "drawn")  # again
    Path("drawn/tsne.pdf").write_text("my own picture")
    refused(2, ("report", copy, "--figures", "drawn"), "drawn/tsne.pdf exists", "Choose another")
    assert Path("drawn/tsne.pdf").read_text() == "my own picture"


def test_two_runs_are_drawn_side_by_side(run: Finished, own_run: Finished, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run.path, tmp_path / "copy"))
    works("report", copy, "--compare", run.path)
    assert len(list(Path("figures").iterdir())) == 6
    refused(2, ("report", copy, "--figures", "x", "--compare", own_run.path), "different classes")


def test_a_report_replaces_only_reports(run: Finished, tmp_path: Path) -> None:
    Path("mine.html").write_text("mine")
    refused(2, ("report", run.path, "--out", "mine.html"), "mine.html exists", "Choose another")
    assert Path("mine.html").read_text() == "mine"


def test_pretraining_alone_and_reused(tmp_path: Path) -> None:
    said = works("discover", "iic", *DIGITS, *TINY, "--until", "pretrain", "--out", "runs/first")
    assert "Pretrained weights are cached in runs/pretrained." in said
    assert "discover 1/1" not in said
    (made,) = Path("runs/pretrained").glob("*.safetensors")
    same = works("discover", "uno-v2", *DIGITS, *TINY, "--out", "runs/same")
    assert f"pretrain: reusing {made}" in same
    assert "pretrain 1/1" not in same
    other = works("discover", "iic", *DIGITS, *TINY, "seed=1", "--out", "runs/other")
    assert "reusing" not in other
    given = works("discover", "iic", *DIGITS, *TINY, "seed=1", "--pretrained", made, "--out", "x/given")
    assert "pretrain 1/1" not in given
    made.write_bytes(made.read_bytes()[:100])
    again = works("discover", "iic", *DIGITS, *TINY, "--out", "runs/second")
    assert "pretrain 1/1" in again
    call = ("discover", "iic", *DIGITS, *TINY, "--until", "pretrian", "--out", "runs/third")
    refused(2, call, "Unknown pretraining stage of iic 'pretrian'", "'pretrain'")


def test_stop_after_and_resume() -> None:
    out = works(*LONG, "--stop-after", "0.5s")
    assert "Stopped at a checkpoint. Repeat the command with --resume to continue." in out
    first = Checkpoint.load(Path("run/checkpoint.safetensors")).state
    refused(2, ("report", "run"), "not finished", "repeat the command that started it, with --resume")
    works(*LONG, "--stop-after", "2s", "--resume")
    second = Checkpoint.load(Path("run/checkpoint.safetensors")).state
    assert second["epoch"] > first["epoch"]
    assert second["lines"][: len(first["lines"])] == first["lines"]


def test_a_finished_run_stays_as_it_is(run: Finished, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run.path, tmp_path / "copy"))
    before, call = contents(copy), ("discover", "iic", *DIGITS, *TINY, "--out", copy)
    refused(2, call, "already holds a run", "Add --resume to continue it, or choose another --out.")
    refused(2, (*call, "--resume", "alpha=0.5", "seed=3"), "other values of alpha, seed", "another --out")
    refused(2, (*call, "--resume", "--subset", "13"), "other values of subset")
    assert contents(copy) == before
    out = works(*call, "--resume")
    assert "1/1" not in out
    assert "written: " in out
    one, other = (Folder(path).read_results().task_aware for path in (run.path, copy))
    assert one == other


STOPPING = "Ctrl-C: stopping at the next checkpoint. Press it again to stop at once.\n"
AGAIN = "Repeat the command with --resume to continue.\n"


@pytest.mark.parametrize(("name", "number"), [("Ctrl-C", signal.SIGINT), ("SIGTERM", signal.SIGTERM)])
def test_a_signal_saves_and_says_how_to_continue(
    name: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impatient(self: Progress, event: Event) -> None:
        if isinstance(event, Epoch) and event.record.stage == "discover":
            signal.raise_signal(number)

    monkeypatch.setattr(Progress, "__call__", impatient)
    before = signal.getsignal(number)
    done = newfound(*LONG)
    assert (done.code, done.err) == (130, "")
    told = STOPPING if name == "Ctrl-C" else "SIGTERM: stopping at the next checkpoint.\n"
    assert done.out.endswith(f"{told}Stopped at a checkpoint. {AGAIN}")
    assert signal.getsignal(number) is before
    assert state_of("run") == ("discover", 1)


@pytest.mark.parametrize(("asked", "told"), [((), ""), ((9.0,), ""), ((0.0, 40.0), ", in about 40 seconds")])
def test_the_first_ctrl_c_says_how_long_it_takes(
    asked: tuple[float, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it took between the last two moments at which it could have stopped."""
    stopping = Stopping(None)
    for moment in asked:
        monkeypatch.setattr(time, "monotonic", lambda moment=moment: 100 + moment)
        stopping()
    assert stopping._soon() == told


def test_ctrl_c_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "newfound", *LONG]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("discover 1/"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    out = re.sub(r", in about \d+ seconds", "", out)  # told on a busy machine
    assert out.endswith(f"{STOPPING}Stopped at a checkpoint. {AGAIN}")


def test_a_second_ctrl_c_stops_at_once_even_within_a_long_operation() -> None:
    """One that lets other threads run, as torch's do, but no handler of this thread."""
    code = """
from hashlib import pbkdf2_hmac
from newfound.cli.signals import Stopping
with Stopping(None, resume=True):
    print("begun", flush=True)
    pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == STOPPING
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (130, f"Stopped at once; the last checkpoint is kept. {AGAIN}")


@pytest.mark.parametrize(("module", "verb"), [("typer", "methods"), ("torch", "compare"), ("typer", "")])
def test_ctrl_c_during_the_imports_ends_in_one_line(module: str, verb: str) -> None:
    code = f"""
import sys
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
sys.argv = ["newfound", *{verb.split()}]
from newfound.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, ""), done.stderr
    assert done.stderr.startswith("Stopped by Ctrl-C.")
    assert done.stderr.count("\n") == 1


def test_the_signal_during_the_imports_exits_at_once() -> None:
    press = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('went on')"
    script = f"from newfound.cli.signals import begin_imports, end_imports; begin_imports(); {press}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Stopped by Ctrl-C.\n")


def test_the_default_folder_and_no_training() -> None:
    works("discover", "kmeans", *DIGITS, *UNTRAINED)
    assert Folder(Path("runs/digits-kmeans")).results.exists()
    out = works("discover", *DIGITS, *changed(TINY, "epochs=0"))
    assert "discover 1/" not in out
    assert Folder(Path("runs/digits")).results.exists()


def test_constraints_are_a_plug_in() -> None:
    on = ("constraints.alpha=0.01", "constraints.beta=0.01")
    works("discover", "uno-v1", *DIGITS, *TINY, *on, "--out", "run")
    last = Folder(Path("run")).read_metrics()[-1]
    assert list(last.losses) == ["ce", "over", "constraints.inter", "constraints.intra"]
    refused(2, ("discover", "rs", *DIGITS, "device=cpu", *on, "--out", "out/run"), "constraints.", "rs")
    assert not Path("out").exists()


def test_a_full_disk_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every checkpoint from the second on cannot be written; resuming continues from the first."""
    call = ("discover", "iic", *DIGITS, *changed(TINY, "checkpoint_seconds=0", "epochs=3"), "--out", "run")
    flush, replace = os.fsync, os.replace
    written: list[str] = []

    def fsync(file: int) -> None:
        if "checkpoint.safetensors" in written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(file)

    def replaced(source: Path, target: Path) -> None:
        replace(source, target)
        written.append(Path(target).name)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        patch.setattr(os, "replace", replaced)
        words = ("Cannot write", "No space left on device", "with --resume once that is fixed")
        refused(1, call, *words)
    assert state_of("run")[0] == "pretrain"
    works(*call, "--resume")
    assert state_of("run") == ("discover", 3)


def tiny(method: str, benchmark: str, overrides: Overrides) -> Recipe:
    wanted = dict(setting.split("=") for setting in TINY)
    known = recipe_for(method, benchmark, {"track": overrides["track"]}).flat()
    narrow = {key: value for key, value in wanted.items() if key in known}
    return recipe_for(
        method,
        benchmark,
        {**narrow, **overrides, **({"epochs": 0} if method in ("centroids", "kmeans") else {})},
    )


def test_the_demo_replaces_only_an_earlier_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newfound.cli.demo.recipe_for", tiny)
    monkeypatch.setattr("newfound.cli.runs.draw_figures", lambda runs, folder: [folder.mkdir(exist_ok=True)])
    for _ in range(2):
        out = works("demo")
    for words in ("raw pixels", "pretrained features", "UNO v2", "IIC", "task-aware", "task-agnostic"):
        assert words in out
    assert ".demo-" not in out  # the folder that is not there any more
    results = Folder(Path("runs/demo")).read_results()
    assert (results.method, results.seed) == ("iic", 0)
    page = Path("runs/demo/report.html").read_text(encoding="utf-8")
    assert "newfound demo --out runs/demo --seed 0" in page
    assert "Open runs/demo/report.html to look at the classes." in out
    assert results.task_aware is not None
    best = results.task_aware.train.acc.best_head
    assert best is not None
    assert f"head of lowest loss, with a train ACC of {100 * best:.1f} %" in out
    assert f"{100 * best:.1f} % of the" in page
    Path("runs/demo/notes.txt").write_text("mine")
    works("demo")
    assert Path("runs/demo/notes.txt").read_text() == "mine"
    refused(2, ("demo", "--out", "runs"), "runs is not the folder of a demo", "Choose another")
    assert [path.name for path in Path("runs").iterdir()] == ["demo"]
    works("classes", "runs/demo", "rename", "novel-1=five")
    refused(2, ("demo",), "runs/demo holds your work on an earlier demo, edits.jsonl", "Choose another")


def test_a_demo_that_fails_leaves_the_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newfound.cli.demo.recipe_for", tiny)
    monkeypatch.setattr("newfound.cli.runs.draw_figures", lambda runs, folder: [folder.mkdir(exist_ok=True)])
    works("demo")
    before = contents(Path("runs"))

    def broken(method: str, benchmark: str, overrides: Overrides) -> Recipe:
        if method == "iic":
            raise KeyboardInterrupt
        return tiny(method, benchmark, overrides)

    monkeypatch.setattr("newfound.cli.demo.recipe_for", broken)
    assert newfound("demo").code == 130
    assert contents(Path("runs")) == before


def test_stored_results_are_typed_json(run: Finished) -> None:
    stored = json.loads((run.path / "results.json").read_text())
    assert stored["schema_version"] == 1
    assert None not in stored.values()
    stored["seed"] = "zero"
    copy = Path("copy")
    shutil.copytree(run.path, copy)
    (copy / "results.json").write_text(json.dumps(stored))
    refused(1, ("report", copy), "copy/results.json", "seed")
