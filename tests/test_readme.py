"""The README says what is: its generated parts are those of results/, and its commands exist."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from newfound.cli.app import app
from newfound.report.readme import generated

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"^ {4}newfound (.+?)(?: +#.*)?$", TEXT, re.MULTILINE)))


def test_generated_parts_are_up_to_date() -> None:
    assert generated(TEXT, ROOT / "results") == TEXT, "run `make readme`"


def test_every_figure_of_the_readme_is_there() -> None:
    for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", TEXT):
        assert (ROOT / path).exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_readme_parses(command: str) -> None:
    """The verb and its options exist; the images it names do not, which is another error."""
    outcome = CliRunner().invoke(app, command.split())
    assert outcome.exit_code != 2, outcome.output
