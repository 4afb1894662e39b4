"""The README says what is: its generated parts are those of results/, and its commands exist."""

import re
from pathlib import Path

import pytest
import typer

import newfound
from newfound.cli.app import command
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


def test_the_python_of_the_readme_uses_what_there_is() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    compile(block, "README.md", "exec")
    names = set(re.findall(r"newfound\.(\w+)", block))
    assert {"discover", "Review", "NovelClassDiscovery"} <= names <= set(newfound.__all__)
