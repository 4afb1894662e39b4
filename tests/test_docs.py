"""README.md and docs/: generated sections, links, commands and Python examples agree with the code."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from mkdocs.commands.build import build
from mkdocs.config import load_config

import newfound
from newfound.cli.app import MODULES, command
from newfound.cli.classes import ACTIONS
from newfound.cli.options import method_and_settings
from newfound.core.registry import recipe_for
from newfound.run.recipe import DEFAULT_METHOD, split_settings
from tools.readme import generated, pages, sections

ROOT = Path(__file__).parents[1]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in pages(ROOT)}
README = PAGES["README.md"]
EXAMPLES = {"balance"}
"""Methods that only a page defines."""


def commands() -> list[tuple[str, str]]:
    """Page and arguments of every indented command; comments and variables before it do not count."""
    line = re.compile(r"^ {4}(?:[A-Z_]+=\S+ )?newfound (.+?)(?: +#.*)?$", re.MULTILINE)
    return [(name, call) for name, text in PAGES.items() for call in dict.fromkeys(line.findall(text))]


def test_generated_sections_are_up_to_date() -> None:
    parts = sections(ROOT / "results")
    for name, text in PAGES.items():
        assert generated(text, parts) == text, f"{name}: run `make readme`"
    missing = [part for part in parts if not any(f"<!-- {part} -->" in text for text in PAGES.values())]
    assert not missing


def test_the_readme_is_short_and_says_how_to_start() -> None:
    assert len(README.splitlines()) <= 150
    assert "    make demo" in README
    assert "    make test" in README
    assert (ROOT / "docs" / "images" / "page.png").stat().st_size <= 300_000


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    folder = ROOT if name == "README.md" else ROOT / "docs"
    for link in re.findall(r"\]\(([^)\s]+)\)", PAGES[name]):
        if "://" in link or link.startswith("../../actions/"):
            continue
        path, _, anchor = link.partition("#")
        target = folder / path if path else folder / name
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), link


def anchors(text: str) -> set[str]:
    """The names that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    config = load_config("mkdocs.yml", site_dir=str(tmp_path))
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    assert "inter-class constraint" in (tmp_path / "methods" / "iic" / "index.html").read_text(
        encoding="utf-8"
    )


def test_every_public_name_is_in_the_reference() -> None:
    named = set(re.findall(r"^(?:::: newfound[\w.]*\.|## )(\w+)$", PAGES["reference.md"], re.MULTILINE))
    assert named == {*newfound.__all__} - {"__version__"}


def test_every_file_that_a_page_names_exists() -> None:
    """Source files in the tables of docs/architecture.md, and recorded runs anywhere."""
    for path in re.findall(r"`([a-z_]+/[\w/]+\.py)`", PAGES["architecture.md"]):
        assert any((ROOT / base / path).exists() for base in ("src/newfound", ".")), path
    for name, text in PAGES.items():
        for path in re.findall(r"`(results/[\w/+.-]+)`", text):
            if not re.search(r"RECIPE|METHOD|seedK", path):
                assert (ROOT / path).exists(), f"{name}: {path}"


@pytest.mark.parametrize(("page", "call"), commands())
def test_every_command_parses(page: str, call: str) -> None:
    """The verb, its arguments, options and settings exist; nothing is run."""
    verb, *words = shlex.split(call)
    given = command(verb).make_context(verb, words).params
    if verb == "classes":
        assert given["action"] in (None, *ACTIONS)
    if verb in ("discover", "estimate") and not EXAMPLES & {given["method"]}:
        method, settings = method_and_settings(given["method"], given["settings"])
        recipe_for(method or DEFAULT_METHOD, given["data"] or "own", split_settings(settings)[1])
    if verb == "calibrate":
        known = recipe_for(given["method"], given["data"] or "own").flat()
        assert {word.partition("=")[0] for word in given["settings"]} <= known.keys()


@pytest.mark.parametrize("name", PAGES)
def test_every_verb_and_option_in_a_sentence_exists(name: str) -> None:
    for call in re.findall(r"`newfound ([^`\n]+)`", PAGES[name]):
        verb, *words = call.split()
        assert verb in MODULES, call
        options = {option for each in command(verb).params for option in each.opts}
        assert {word for word in words if word.startswith("--")} <= options, call


def test_a_command_that_does_not_exist_would_be_found() -> None:
    with pytest.raises(KeyError):
        command("discovr")
    with pytest.raises(typer.BadParameter.__base__, match="--subsett"):  # type: ignore[arg-type]
        command("compare").make_context("compare", ["all", "--data", "digits", "--subsett", "3"])
