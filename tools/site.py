"""A mkdocs hook that adds pages to the site: README.md as the front page, and one for each method."""

import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from newfound.cli.lists import MethodCard, SettingCard, by_value, catalogue
from newfound.core.registry import method_entry
from newfound.lab.recorded import ACC, load_records, over, status
from newfound.run.models import Results
from tools.readme import AGNOSTIC

ROOT = Path(__file__).parents[1]
_OTHERS = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = {"README.md": "index.md", **{name: name for name in _OTHERS}}
"""Pages outside docs/, and their names on the site."""
STARTS = {"trained": "results", "lite0, frozen": "results/vectors/lite0"}
"""How the encoder starts → the folder of those records."""
SCORES = {
    "task-aware ACC, train": ACC,
    "task-agnostic (legacy) all, test": AGNOSTIC,
    "GCD's All": "generalised.train.all",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages; mkdocs calls this hook."""
    for page, name in PAGES.items():
        text = (ROOT / page).read_text(encoding="utf-8").replace("](docs/", "](")
        text = re.sub(r"<!-- badges -->.*<!-- /badges -->\n\n", "", text, flags=re.DOTALL)
        files.append(File.generated(config, name, content=text))
    records = {start: load_records(ROOT / folder) for start, folder in STARTS.items()}
    for name, card in catalogue().items():
        text = method_page(card, records)
        files.append(File.generated(config, f"methods/{name}.md", content=text))
    assert config.nav is not None
    research = next(part["Research"] for part in config.nav if "Research" in part)
    research.insert(1, {"Each method": [f"methods/{name}.md" for name in catalogue()]})
    return files


def method_page(card: MethodCard, records: Mapping[str, Sequence[Results]]) -> str:
    """The page of a method as Markdown: what it does, its results, settings and variations."""
    module = inspect.getdoc(sys.modules[method_entry(card.name).method.__module__]) or ""
    lines = [f"# {card.name}", "", card.description, "", module.partition("\n")[2], ""]
    piles = ", ".join(card.piles)
    lines += [f"[Piles](../mixed-piles.md), the default first: {piles}.", ""]
    lines += ["## Results", "", f"Status: {status(records['trained'], card.name)}.", ""]
    lines += ["The words are explained in [How results are measured](../measuring.md).", ""]
    lines += _results(card.name, records)
    lines += [
        "## Settings",
        "",
        "| setting | default | meaning | published | ours |",
        "|---|---|---|---|---|",
    ]
    lines += [_setting(each) for each in card.settings]
    if card.variations:
        lines += ["", "## Variations", "", f"`newfound reproduce BENCHMARK {card.name} --recipe NAME`", ""]
        lines += ["| recipe | what it changes |", "|---|---|"]
        for recipe, changes in card.variations.items():
            changed = " ".join(f"`{key}={value}`" for key, value in changes.items())
            lines.append(f"| {recipe} | {changed or 'nothing'} |")
    return "\n".join(lines) + "\n"


def _results(method: str, records: Mapping[str, Sequence[Results]]) -> list[str]:
    """A table with a row for each benchmark, encoder and recipe."""
    groups: dict[tuple[str, str, str], list[Results]] = {}
    for start, runs in records.items():
        for run in runs:
            if run.method == method and run.recipe != "custom":
                groups.setdefault((run.benchmark, start, run.recipe), []).append(run)
    lines = [
        f"| benchmark | encoder | recipe | {' | '.join(SCORES)} |",
        "|---|---|---|" + "---|" * len(SCORES),
    ]
    for key, runs in sorted(groups.items()):
        lines.append(f"| {' | '.join((*key, *(str(over(runs, path) or '') for path in SCORES.values())))} |")
    return [*lines, ""] if groups else []


def _setting(card: SettingCard) -> str:
    cells = [f"`{card.key}`", f"`{card.default}`", card.meaning, _values(card.published), _values(card.ours)]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _values(of: Mapping[str, object]) -> str:
    return "; ".join(f"`{value}` ({', '.join(names)})" for value, names in by_value(of).items())
