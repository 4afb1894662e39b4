"""What a newcomer sees, and the whole surface of the command line, so that enlarging it is a decision."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from newfound.cli import RESUMING
from newfound.cli.app import MODULES, command
from newfound.cli.progress import EpochProgress, advice_for
from newfound.core.registry import method_entry, method_names, recipe_for
from newfound.data.assemble import own_look
from newfound.engine.trainer import EpochRecord
from newfound.report.paper import LATER, TASK_AWARE
from tests.cli.calls import newfound, refused, works

IMAGES = {"--data", "--data-dir", "--subset", "--labelled", "--unlabelled", "--num-novel", "--size"}
TRAINING = {"method", "settings", *IMAGES, "--strict", "--out", "--resume", "--stop-after"}
SURFACE = {
    "demo": {"--out", "--seed"},
    "data": set(),
    "methods": {"name", "--results"},
    "estimate": {*(TRAINING - {"--num-novel"}), "--algorithm"},
    "pretrain": TRAINING,
    "discover": {*TRAINING, "--pretrained"},
    "compare": {
        *("methods", "--data", "--seeds", "--track", "--data-dir", "--subset", "--stop-after", "--out"),
    },
    "calibrate": {*(TRAINING - {"--num-novel", "--resume"}), "--hold-out", "--seeds", "--record"},
    "reproduce": {
        *("benchmark", "method", "--recipe", "--seeds", "--data-dir", "--stop-after", "--out", "--results"),
        "--note",
    },
    "tables": {"--results"},
    "bench": {"method", "settings", "--data", "--modes", "--parts", "--out"},
    "report": {"run", "--out", "--data-dir"},
    "evaluate": {"run", "--data-dir"},
    "figures": {"run", "--compare", "--out", "--data-dir"},
    "predict": {"run", "images", "--out", "--strict"},
    "trust": {"run", "--hold-out", "--data-dir", "--stop-after"},
    "review": {"run", "--port", "--data-dir"},
    "classes": {"run"},
    "rename": {"run", "names"},
    "merge": {"run", "into", "others"},
    "split": {"run", "name", "--into"},
    "move": {"run", "into", "images"},
    "undo": {"run"},
    "export": {"run", "out", "--format", "--link"},
    "relocate": {"run", "--labelled", "--unlabelled"},
}


def test_the_surface() -> None:
    found = {name: {opt for each in command(name).params for opt in each.opts} for name in MODULES}
    assert found == SURFACE
    assert {name for name, options in found.items() if "--resume" in options} == {*RESUMING}


@pytest.mark.parametrize("call", [("--help",), ("-h",), ()], ids=["--help", "-h", "nothing"])
def test_help_lists_the_verbs(call: tuple[str, ...]) -> None:
    out = works(*call)
    assert all(verb in out for verb in SURFACE)
    assert "unlabelled images" in out


def test_help_of_a_verb_lists_its_options() -> None:
    for verb, names in SURFACE.items():
        out = works(verb, "--help")
        assert all(name in out for name in names), verb


def test_data_lists_the_benchmarks_and_what_they_need() -> None:
    out = works("data")
    for words in (
        "digits",
        "nothing",
        "cifar10",
        "cifar100-20",
        "cifar100-50",
        "imagenet-30-a",
        "cifar100-K",
    ):
        assert words in out
    for words in ("--data NAME", "known", "novel", "cifar-10-python.tar.gz", "train/<wnid>/*.JPEG"):
        assert words in out


def test_methods_lists_all_with_a_line_each() -> None:
    out = works("methods")
    assert {*method_names()} >= {*TASK_AWARE, *LATER}
    for name in method_names():
        assert name in out
    assert "inter-class and intra-class constraints" in out
    assert "newfound methods NAME" in out


def test_the_status_of_methods_is_told_where_recorded_runs_are() -> None:
    """Nobody knows it elsewhere, and an empty folder is not the same as none."""
    nowhere = works("methods")
    assert "implemented" not in nowhere
    assert "no status, for results is no folder of recorded runs; --results says where they are" in nowhere
    Path("mine").mkdir()
    assert works("methods", "--results", "mine").count("implemented") == len(method_names())
    recorded = works("methods", "--results", Path(__file__).parents[2] / "results")
    assert "reproduced on" in recorded
    assert "no status" not in recorded


def test_no_two_methods_are_described_alike() -> None:
    described = {name: method_entry(name).description for name in method_names()}
    assert len(set(described.values())) == len(described)
    out = works("methods")
    assert all(line in out for line in described.values())


def test_methods_of_one_shows_defaults_meaning_and_published_values() -> None:
    lines = works("methods", "iic").splitlines()
    alpha = next(line for line in lines if "alpha" in line)
    for words in ("0.05", "weight of the inter-class constraint; 0 switches it off", "0.02 (cifar100-20)"):
        assert words in alpha
    for name in ("tau", "heads", "epochs", "batch_size", "seed", "device", "pretrain.labelled_share"):
        assert any(f" {name} " in line for line in lines), name
    assert "published" in "".join(lines)


def test_methods_of_one_lists_its_variations_and_how_to_run_them() -> None:
    out = works("methods", "iic")
    assert "newfound reproduce BENCHMARK iic --recipe NAME" in out
    mse = next(line for line in out.splitlines() if " mse " in line and "beta" in line)
    assert "alpha=0.0 intra=mse beta=0.03" in mse
    assert any("fast (cifar10)" in line and "epochs=320" in line for line in out.splitlines())
    appendix = next(line for line in works("methods", "uno-v2").splitlines() if "appendix" in line)
    assert "nothing" in appendix
    refused(2, ("methods", "IIC"), "unknown method 'IIC'; did you mean 'iic'?")


@pytest.mark.parametrize("name", method_names())
def test_every_method_shows_its_settings(name: str) -> None:
    assert "constraints.alpha" in works("methods", name)


def test_tables_are_plain_in_a_pipe() -> None:
    for call in (("data",), ("methods",), ("methods", "iic")):
        out = works(*call)
        assert "\x1b" not in out
        assert "…" not in out


def test_markup_in_a_name_is_text() -> None:
    done = newfound("methods", "[bold]iic")
    assert done.code == 2
    assert "'[bold]iic'" in done.err


def test_a_terminal_gets_a_live_bar() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120, markup=False, highlight=False)
    record = EpochRecord("discover", 0, 2, 0.1, {"ce": 1.25}, [1.25], 0.5, 1234.0)
    with EpochProgress(console, "iic ") as progress:
        progress(record, {"task_aware.train.acc": 0.5})
        progress.say("a line [in] between")
    shown = screen.getvalue()
    for words in ("iic discover", "1/2", "task-aware train ACC 50.0%", "1,234 images/s", "ce 1.250"):
        assert words in shown
    assert "iic a line [in] between" in shown
    assert "\x1b" in shown


@pytest.mark.parametrize(("seconds", "times"), [(7.0, 1), (5.0, 0)])
def test_what_takes_long_is_said_once(seconds: float, times: int) -> None:
    screen = io.StringIO()
    progress = EpochProgress(Console(file=screen, width=200), advice="try less")
    for epoch in range(3):
        progress(EpochRecord("pretrain", epoch, 200, 0.1, {"ce": 1.25}, [1.25], seconds, 12.0), {})
    assert screen.getvalue().count("pretrain alone takes about 23 minutes on this CPU; try less") == times


def test_advice_is_what_the_run_can_follow() -> None:
    look = own_look(32)
    recipe = recipe_for("iic", "own", {"device": "cpu"})
    assert "encoder=small or fewer epochs" in advice_for(recipe, look)
    for setting in ({"encoder": "small"}, {"weights": "r18.pth"}):
        said = advice_for(recipe_for("iic", "own", {"device": "cpu", **setting}), look)
        assert "; fewer epochs" in said


def test_importing_the_package_brings_nothing_slow() -> None:
    code = "import json, sys, newfound; print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    slow = {"sklearn", "scipy", "matplotlib", "PIL", "typer", "pydantic", "rich", "tensorboard"}
    assert not slow & set(json.loads(done.stdout))


def test_verbs_that_do_not_train_bring_no_scikit_learn() -> None:
    code = "import sys, newfound.cli.edit, newfound.cli.use; sys.exit('scipy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_list_of_verbs_needs_no_torch() -> None:
    code = (
        "import sys; from newfound.cli import main; sys.argv = ['newfound', '--help']\n"
        "try: main()\n"
        "finally: assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "Find the novel classes" in done.stdout


@pytest.mark.parametrize(
    ("module", "verb"), [("typer", "methods"), ("torch", "methods"), ("torch", "compare"), ("typer", "")]
)
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
    assert done.returncode == 130, done.stderr
    assert done.stderr.startswith("error: stopped by Ctrl-C")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("goes on from there: repeat the call\n") == (verb == "compare")
    assert done.stdout == ""


def test_tables_without_records_say_so() -> None:
    refused(2, ("tables", "--results", "nowhere"), "recorded runs must be in nowhere", "--results")
