"""What a newcomer sees, and the whole surface of the command line, so that enlarging it is a decision."""

import io
import logging
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from rich.console import Console
from rich.table import Table

from newfound import __version__
from newfound.cli import console as printing
from newfound.cli.app import MODULES, VERBS, command
from newfound.cli.console import HINTS, RESUMABLE, log_to_console, worded
from newfound.cli.progress import Progress
from newfound.core import dist
from newfound.core.errors import Hint, UsageError
from newfound.core.registry import method_entry, method_names
from newfound.engine.trainer import EpochRecord
from newfound.lab.paper import LATER, TASK_AWARE
from newfound.nn.encoders.huggingface import HuggingFace
from newfound.nn.encoders.lite0 import Lite0
from newfound.run.events import Epoch
from tests.cli.calls import newfound, refused, works
from tests.cli.conftest import Finished

RESULTS = Path(__file__).parents[2] / "results"
IMAGES = {"--data", "--data-dir", "--subset", "--labelled", "--unlabelled", "--size", "--strict"}
TRAINING = {"method", "settings", *IMAGES, "--out", "--stop-after"}
SURFACE = {
    "demo": {"--out", "--seed"},
    "discover": {
        *(*TRAINING, "--embeddings", "--num-novel", "--pile", "--from", "--only", "--until"),
        *("--pretrained", "--resume"),
    },
    "estimate": {*TRAINING, "--embeddings", "--pile", "--algorithm", "--resume"},
    "embed": {*("images", "--encoder", "--out", "--views", "--strict", "--engine", "--address", "--workers")},
    "predict": {
        *("run", "images", "--out", "--overwrite", "--strict", "--engine", "--address", "--workers"),
    },
    "export": {"run", "out", "--format", "--link"},
    "data": set(),
    "encoders": set(),
    "review": {"run", "--port", "--data-dir"},
    "classes": {"run", "action", "arguments", "--into"},
    "report": {"run", "--out", "--figures", "--compare", "--data-dir"},
    "trust": {"run", "--hold-out", "--data-dir", "--stop-after"},
    "relocate": {"run", "--labelled", "--unlabelled"},
    "methods": {"name", "--results"},
    "compare": {
        *("methods", "--data", "--seeds", "--track", "--data-dir", "--subset", "--stop-after", "--out"),
    },
    "calibrate": {*TRAINING, "--embeddings", "--pile", "--hold-out", "--seeds", "--record"},
    "reproduce": {
        *("benchmark", "method", "--recipe", "--seeds", "--data-dir", "--stop-after", "--out", "--results"),
        *("--encoder", "--note"),
    },
    "tables": {"--results"},
}
SURFACE["plan"] = SURFACE["discover"]
SLURM = {
    **{"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": "here", "SLURM_JOB_ID": "1"},
    **{"SLURM_PROCID": "0", "SLURM_LOCALID": "0"},
}


def test_the_surface() -> None:
    found = {name: {opt for each in command(name).params for opt in each.opts} for name in MODULES}
    assert found == SURFACE
    assert {name for name, options in found.items() if "--resume" in options} == {*RESUMABLE, "plan"}


@pytest.mark.parametrize("call", [("--help",), ("-h",), ()], ids=["--help", "-h", "nothing"])
def test_help_lists_the_verbs_in_three_panels(call: tuple[str, ...]) -> None:
    out = works(*call)
    places = [out.index(f"─ {panel} ─") for panel in VERBS]
    assert places == sorted(places)
    assert len(places) == 3
    assert len(MODULES) <= 19
    assert all(f" {verb} " in out for verb in MODULES)


def test_help_of_a_verb_lists_its_options() -> None:
    for verb, names in SURFACE.items():
        out = works(verb, "--help")
        assert all(name in out for name in names), verb
    assert "estimate.max_novel=99" in works("estimate", "--help")


def test_the_version() -> None:
    assert works("--version") == f"newfound {__version__}\n"


@pytest.mark.parametrize(
    "call",
    [
        ("--help",),
        ("--version",),
        ("methods", "--results", str(RESULTS)),
        ("methods", "iic"),
        ("classes", "run"),
        ("classes", "run", "rename", "novel-1=zebra"),
        ("classes", "run", "split", "zebra"),
        ("classes", "run", "undo"),
        ("export", "run", "it.csv"),
    ],
    ids=" ".join,
)
def test_verbs_that_compute_nothing_do_not_import_torch(call: tuple[str, ...], mine: Path) -> None:
    if call[2:] == ("split", "zebra"):
        works("classes", "run", "rename", f"{_largest(mine)}=zebra")
    if call[2:] == ("undo",):
        works("classes", "run", "rename", "novel-1=zebra")
    code = (
        "import sys, newfound.cli\n"
        f"sys.argv = ['newfound', *{call!r}]\n"
        "try:\n    newfound.cli.main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)


def _largest(run: Path) -> str:
    lines = (run / "assignments.csv").read_text().splitlines()[1:]
    names = [line.split(",")[1] for line in lines]
    return max(set(names), key=names.count)


def test_every_hint_is_worded_for_the_command_line() -> None:
    assert HINTS.keys() == {*Hint}
    error = UsageError("It is there.", Hint.RESUME_OR_NEW_FOLDER)
    assert worded(error, "discover") == "It is there. Add --resume to continue it, or choose another --out."
    retry = UsageError("The disk is full.", Hint.RETRY)
    assert worded(retry, "estimate").endswith("Repeat the command with --resume once that is fixed.")
    assert worded(retry, "export").endswith("Repeat the command once that is fixed.")


def test_data_lists_the_benchmarks_and_what_they_need() -> None:
    out = works("data")
    for words in (
        *("--data NAME", "digits", "nothing", "cifar10", "cifar100-20", "cifar100-50", "cifar100-K"),
        *("imagenet-30-a", "cifar-10-python.tar.gz", "train/<wnid>/*.JPEG"),
    ):
        assert words in out


def test_encoders_lists_features_and_parameters() -> None:
    lines = works("encoders").splitlines()
    resnet = next(line for line in lines if " resnet18 " in line)
    assert " 512 " in resnet
    assert " 11.18 M " in resnet
    assert any(" small " in line and "very small images" in line for line in lines)


def test_encoders_lists_what_is_pretrained_and_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lite0, "missing", staticmethod(lambda: ""))
    monkeypatch.setattr(HuggingFace, "missing", staticmethod(lambda: "pip install 'newfound[hf]'"))
    lines = works("encoders").splitlines()
    lite, any_model = (next(line for line in lines if f" {name} " in line) for name in ("lite0", "hf:MODEL"))
    for words in (" 1280 ", " 3.37 M ", " yes ", " installed ", " Apache 2.0 ", "ImageNet"):
        assert words in lite
    assert " pip install 'newfound[hf]' " in any_model


def test_methods_lists_all_with_a_line_and_a_status_each() -> None:
    out = works("methods")
    assert {*method_names()} >= {*TASK_AWARE, *LATER}
    described = {name: method_entry(name).description for name in method_names()}
    assert len(set(described.values())) == len(described)
    assert all(name in out and line in out for name, line in described.items())
    assert any(" gcd " in line and " mixed, novel" in line for line in out.splitlines())
    assert "Recorded runs would add a status; results has none. Use --results for another folder." in out
    recorded = works("methods", "--results", RESULTS)
    assert "reproduced (n = 1) on" in recorded
    assert "would add a status" not in recorded


def test_methods_of_one_shows_settings_and_variations() -> None:
    lines = works("methods", "iic").splitlines()
    alpha = next(line for line in lines if " alpha " in line)
    for words in ("0.05", "weight of the inter-class constraint", "0.02 (cifar100-20)"):
        assert words in alpha
    for name in ("tau", "heads", "epochs", "batch_size", "seed", "device", "pretrain.labelled_share"):
        assert any(f" {name} " in line for line in lines), name
    assert any("newfound reproduce BENCHMARK iic --recipe NAME" in line for line in lines)
    assert any(" mse " in line and "alpha=0.0 intra=mse beta=0.03" in line for line in lines)
    assert any("fast (cifar10)" in line and "epochs=320" in line for line in lines)
    assert lines[-1] == "piles, the default first: novel, mixed"
    refused(2, ("methods", "[bold]IIC"), "Unknown method '[bold]IIC'.")


def test_tables_without_records() -> None:
    refused(2, ("tables", "--results", "nowhere"), "There are no recorded runs in nowhere", "--results")
    assert "| iic |" in works("tables", "--results", RESULTS)


def test_tables_are_plain_in_a_pipe() -> None:
    for call in (("data",), ("methods",), ("methods", "iic")):
        out = works(*call)
        assert "\x1b" not in out
        assert "…" not in out


def test_a_terminal_gets_a_live_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=120, markup=False, highlight=False)
    for module in ("console", "progress"):
        monkeypatch.setattr(f"newfound.cli.{module}.console", lambda: terminal)
    printing.log_to_console()
    with Progress() as progress:
        record = EpochRecord("discover", 0, 2, 0.1, {"ce": 1.25}, [1.25], 0.5, 1234.0)
        progress.labelled("iic seed 0")(Epoch(record, {"task_aware.train.acc": 0.5}))
        logging.getLogger("newfound.run").warning("a line [in] between")
    shown = screen.getvalue()
    for words in ("iic seed 0: discover", "1/2", "task-aware train ACC 50.0%", "1,234 images/s", "ce 1.250"):
        assert words in shown
    assert "iic seed 0: warning: a line [in] between" in shown
    assert printing.HANDLER.label == ""


@pytest.mark.parametrize(("seconds", "times"), [(7.0, 1), (5.0, 0)])
def test_a_long_call_is_announced_once_with_advice(
    seconds: float, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "newfound")
    progress = Progress("try less")
    for epoch in range(3):
        record = EpochRecord("pretrain", epoch, 150, 0.1, {"ce": 1.25}, [1.25], seconds, 12.0)
        progress(Epoch(record, {}, ahead=50.0))
    assert caplog.text.count("about 23 minutes left for all stages; try less") == times


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("bogus",), ("bogus",)),
        (("discover",), ("--labelled", "--data NAME")),
        (("discover", "iic", "--bogus"), ("--bogus", "`newfound discover --help` lists the options")),
        (("discover", "iic", "--track", "matched"), ("--track", "Settings are written as track=VALUE")),
        (("classes", "run", "merge", "-dash", "novel-1"), ("Write -- before names that begin with -",)),
        (("discover", "iic", "--data"), ("--data", "argument")),
        (("discover", "iic", "--data", "digits", "epochs"), ("key=value", "'epochs'")),
        (("discover", "--data", "digits", "epochs=1", "epochs=2"), ("each key once", "'epochs=2'")),
        (("discover", "iic", "--subset", "0"), ("--subset",)),
        (
            ("discover", "--data", "digits", "--num-novel", "many"),
            ("--num-novel", "'many'"),
        ),
        (("discover", "iic", "--stop-after", "soon"), ("--stop-after", "'soon' is not a time such as 90s")),
        (("discover", "--data", "digits", "--out", ""), ("is empty", "shell variable")),
        (("discover", "--data", "digits", "--out="), ("--out is empty", "shell variable")),
        (("demo", "--seed", "-1"), ("--seed",)),
        (("predict", "run"), ("Missing argument", "newfound predict --help")),
        (("methods", "icc"), ("Unknown method 'icc'", "'iic'", "`newfound methods` lists")),
    ],
    ids=lambda value: " ".join(value),
)
def test_wrong_calls_are_one_line_and_write_nothing(call: tuple[str, ...], words: tuple[str, ...]) -> None:
    refused(2, call, *words)
    assert not list(Path().iterdir())


def test_names_cannot_command_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(printing, "console", lambda: printing.PlainConsole(file=out, width=200))
    log_to_console()
    printing.console().print(Table("cl\x1b[31mass", title="\x1b]0;title\x07"))
    logging.getLogger("newfound").warning("%s is odd", "a\x1b[2Jb\nc")
    shown = out.getvalue()
    assert "\x1b" not in shown
    assert r"cl\x1b[31" in shown
    assert r"warning: a\x1b[2Jb\nc is odd" in shown


def test_errors_of_the_system_are_one_line(run: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/secret")

    def full(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("newfound.cli.classes.Review.open", denied)
        refused(1, ("classes", run.path), "Permission denied: /secret")
        patch.setattr("newfound.cli.classes.Review.open", full)
        refused(1, ("classes", run.path), "Out of memory.")
        patch.setattr("newfound.cli.classes.Review.open", lambda run: 1 / 0)
        refused(1, ("classes", run.path), "Unexpected error, please report it: ZeroDivisionError")


def test_processes_that_would_only_wait_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"join": lambda: None, "leave": lambda: None, "world": lambda: 4}.items():
        monkeypatch.setattr(dist, name, value)
    with mock.patch.dict(os.environ, SLURM):
        told = newfound("embed", "gone", "--encoder", "small", "--out", "feats")
        assert told.out == "warning: embed uses one of 4 processes; --engine ray uses several.\n"
        assert "warning" not in newfound("discover", "iic").out
