"""The README says what is: its generated parts are those of results/, and its commands exist."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import newfound
from newfound.cli.app import command
from newfound.core import registry
from newfound.experiment import Folder
from tests.tiny import NARROW, STAGE, TINY
from tools.readme import generated

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"^ {4}newfound (.+?)(?: +#.*)?$", TEXT, re.MULTILINE)))


def test_generated_parts_are_up_to_date() -> None:
    assert generated(TEXT, ROOT / "results") == TEXT, "run `make readme`"


def test_every_figure_of_the_readme_is_there() -> None:
    for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", TEXT):
        assert (ROOT / path).exists()


@pytest.mark.parametrize("call", COMMANDS)
def test_every_command_of_the_readme_parses(call: str) -> None:
    """The verb, its arguments and its options exist; nothing is run."""
    verb, *words = call.split()
    context = command(verb).make_context(verb, words)
    assert context.params


def test_a_command_that_does_not_exist_would_be_found() -> None:
    with pytest.raises(KeyError):
        command("discovr")
    with pytest.raises(typer.BadParameter.__base__, match="--subsett"):  # type: ignore[arg-type]
        command("compare").make_context("compare", ["all", "--data", "digits", "--subsett", "3"])


@pytest.mark.filterwarnings("ignore::UserWarning")  # there are few images
def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands, on small images and with a network that learns them in a moment."""
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    pretrain = {f"pretrain.{key}": value for key, value in STAGE.items()}
    quick = {"own": TINY | NARROW | pretrain | {"encoder": "small"}}
    monkeypatch.setitem(registry._METHODS, "iic", replace(registry.method_entry("iic"), ours=quick))
    monkeypatch.chdir(tmp_path)
    images = np.random.default_rng(0).integers(256, size=(60, 12, 12, 3), dtype=np.uint8)
    names: dict[str, Any] = {"images": images, "labels": np.repeat([0, 1, 2, -1], 15)}
    exec(block, names)
    assert {"report.html", "results.json"} <= {path.name for path in Path("runs/arrays").iterdir()}
    assert "zebra" in newfound.Review.open("runs/arrays").names.values()
    assert Path("classes.csv").read_text().count("\n") == 16
    assert names["found"].labels_.shape == (60,)
    for run in (Path("runs/arrays"), names["found"].run_):
        recipe = Folder(run).recipe()
        assert {stage: train.epochs for stage, train in recipe.train.items()} == {
            "pretrain": 20,
            "discover": 20,
        }
