"""README.md and docs/: generated sections, links, commands and Python examples agree with the code."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from mkdocs.commands.build import build
from mkdocs.config import load_config
from PIL import Image
from sklearn.datasets import make_blobs

import newfound
from newfound.cli.app import MODULES, command
from newfound.cli.classes import ACTIONS
from newfound.cli.options import method_and_settings
from newfound.core.registry import ENCODERS, METHODS, method_entry, recipe_for
from newfound.nn.encoders import build_encoder
from newfound.run.folder import Folder
from newfound.run.recipe import DEFAULT_METHOD, split_settings
from tests.tiny import NARROW, STAGE, TINY
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
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = folder / path if path else folder / name
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), link


def anchors(text: str) -> set[str]:
    """The names that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_linked_from_the_readme() -> None:
    assert all(f"(docs/{name})" in README for name in PAGES if name != "README.md")


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


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the examples use; the current folder has the images, and IIC learns them in a moment."""
    METHODS.load()
    pretrain = {f"pretrain.{key}": value for key, value in STAGE.items()}
    quick = {"own": TINY | NARROW | pretrain | {"encoder": "small"}}
    monkeypatch.setitem(METHODS.items, "iic", replace(method_entry("iic"), ours=quick))
    monkeypatch.chdir(tmp_path)
    images = np.random.default_rng(0).integers(256, size=(75, 12, 12, 3), dtype=np.uint8)
    labels = np.repeat([0, 1, 2, -1, -1], 15)
    for row, image in enumerate(images):
        folder = Path("known", f"class-{labels[row]}") if labels[row] >= 0 else Path("pile")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{row}.png")
    Path("new-images").mkdir()
    Image.fromarray(images[0]).save("new-images/one.png")
    return {"images": images, "labels": labels}


def python(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGES[page], re.DOTALL)


def test_the_python_of_the_readme_runs(names: dict[str, Any]) -> None:
    (block,) = python("README.md")
    assert len([line for line in block.splitlines() if line]) <= 6
    exec(block, names)
    assert {"report.html", "results.json"} <= {path.name for path in Path("runs/arrays").iterdir()}
    assert "zebra" in newfound.Review.open("runs/arrays").names.values()
    assert Path("classes.csv").read_text().count("\n") == 31


def test_the_python_for_encoders_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ENCODERS, "items", dict(ENCODERS.items))
    (block,) = python("encoders.md")
    exec(block, {})
    assert build_encoder("tiny")(torch.rand(2, 3, 32, 32)).shape == (2, 16)


def test_the_python_for_embeddings_runs() -> None:
    X, classes = make_blobs(120, centers=6, n_features=16, random_state=0)
    y = np.array(["cat", "dog", "eel", "fox", "-1", "-1"])[classes]
    names: dict[str, Any] = {"X": X, "y": y, "X_new": X[:5]}
    exec(python("own-images.md")[-1], names)
    assert names["model"].classes_.tolist() == ["cat", "dog", "eel", "fox", "novel-1", "novel-2"]
    assert newfound.hungarian_accuracy(names["found"], classes) == 1


@pytest.mark.slow
def test_the_python_for_own_images_runs(names: dict[str, Any]) -> None:
    arrays, files, estimator, _ = python("own-images.md")
    exec(arrays, names)
    assert list(newfound.Review.open("runs/arrays").names.values()).count("zebra") == 1
    exec(files, names)
    assert names["predictions"].images == [str(Path("new-images/one.png").absolute())]
    exec(estimator, names)
    assert names["model"].labels_.shape == (75,)
    assert (names["again"].predict(names["images"]) == names["model"].predict(names["images"])).all()
    for run in (Path("runs/arrays"), Path("runs/three"), Path("runs/estimator")):
        settings = Folder(run).request().settings
        assert (settings["epochs"], settings["pretrain.epochs"]) == (20, 20)
