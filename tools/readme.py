"""Write the generated sections of README.md and docs/ from results/ alone: `make readme`."""

import re
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console

from benchmarks.number import number_section
from benchmarks.piles import piles_section
from newfound.cli.demo import METHODS, demo_recipe, demo_table
from newfound.core.registry import method_entry, method_names
from newfound.lab.paper import BENCHMARKS, TASK_AWARE, task_agnostic_all, task_aware_acc
from newfound.lab.recorded import ACC, load_records, measured, outcome, score, status
from newfound.lab.tables import tables_section
from newfound.run.models import Results
from tools.scale import loader_section, many_section, scale_section
from tools.speed import speed_section
from tools.vectors import headline, mixed_section, starts_section, vectors_section

AGNOSTIC = "task_agnostic.legacy.all"
SCHEDULES = ("published", "fast", "half", "five-minutes")
"""The schedules of IIC on CIFAR10 whose training times are shown."""


def iic_section(records: Sequence[Results]) -> str:
    """IIC on the CIFAR benchmarks under both protocols, beside the paper's numbers."""
    lines = [
        "| IIC on | task-aware ACC, train | paper | task-agnostic (legacy) all, test | paper | seeds "
        "| runs off by over a point |",
        "|---|---|---|---|---|---|---|",
    ]
    aware, agnostic = TASK_AWARE["iic"].split(), task_agnostic_all("iic")
    for benchmark, published in zip(BENCHMARKS, aware, strict=True):
        if seeds := _seeds(records, "iic", benchmark):
            ours = [measured(records, "iic", benchmark, path, "published") for path in (ACC, AGNOSTIC)]
            cells = [ours[0], published, ours[1], agnostic[benchmark], seeds, _off(records, benchmark)]
            lines.append(f"| {benchmark} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _off(records: Sequence[Results], benchmark: str) -> str:
    """How many of IIC's runs, with any schedule, are over a point from the paper, and their accuracies."""
    found = [each for each in records if (each.method, each.benchmark) == ("iic", benchmark)]
    runs = [100 * (score(each, ACC) or 0.0) for each in found if each.recipe in SCHEDULES]
    published = task_aware_acc("iic")[benchmark]
    off = [f"{acc:.1f}" for acc in sorted(runs) if outcome(acc, published) != "reproduced"]
    return f"{len(off)} of {len(runs)}" + (f": {', '.join(off)}" if off else "")


def catalogue_section(records: Sequence[Results]) -> str:
    """A row for each method: its name, its paper, and its accuracy on CIFAR10."""
    lines = ["| method | what it is | CIFAR10: ours [published] | seeds |", "|---|---|---|---|"]
    for name in method_names():
        ours = measured(records, name, "cifar10", ACC, "published")
        published = TASK_AWARE.get(name, "").partition(" ")[0]
        cell = f"{ours or ''} {f'[{published}]' if published else ''}".strip()
        seeds = _seeds(records, name, "cifar10")
        lines.append(f"| `{name}` | {method_entry(name).description} | {cell} | {seeds} |")
    return "\n".join(lines)


def _seeds(records: Sequence[Results], method: str, benchmark: str) -> str:
    """The seeds of the recorded runs of the published recipe, or of ours if the paper gives none."""
    keys = {(method, benchmark, recipe) for recipe in ("published", "newfound")}
    found = {each.seed for each in records if (each.method, each.benchmark, each.recipe) in keys}
    return ", ".join(map(str, sorted(found)))


def methods_section(records: Sequence[Results]) -> str:
    """A row for each method: its name, its paper, its kinds of piles, its status."""
    recorded = "task-aware ACC on the training split, recorded runs"
    lines = [f"| method | what it is | piles | {recorded} |", "|---|---|---|---|"]
    for name in method_names():
        entry, found = method_entry(name), status(records, name)
        lines.append(f"| `{name}` | {entry.description} | {', '.join(entry.piles)} | {found} |")
    return "\n".join(lines)


def digits_section(records: Sequence[Results]) -> str:
    """A row for each of the demo's methods, then for all others, over the recorded seeds."""
    columns = {
        "task-aware ACC, train": ACC,
        "task-aware ACC, test": "task_aware.test.acc",
        "task-agnostic (novel-ids) all, test": "task_agnostic.novel_ids.all",
    }
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    rows = {(name, demo_recipe(name)): title for name, title in METHODS.items()}
    rows |= {(name, "newfound"): f"`{name}`" for name in method_names() if (name, "newfound") not in rows}
    for (name, recipe), title in rows.items():
        cells = [measured(records, name, "digits", path, recipe) for path in columns.values()]
        if any(cells):
            lines.append(f"| {title} | {' | '.join(str(cell or '') for cell in cells)} |")
    return "\n".join(lines)


def demo_section(records: Sequence[Results]) -> str:
    """The demo's table, from the recorded runs of seed 0."""
    found = {
        record.method: record
        for record in records
        if (record.benchmark, record.seed, record.recipe) == ("digits", 0, demo_recipe(record.method))
    }
    out = StringIO()
    Console(file=out, width=100).print(demo_table(found[name] for name in METHODS if name in found))
    lines = (line.rstrip() for line in out.getvalue().splitlines())
    return "\n".join(["```text", *(line for line in lines if line), "```"])


def training_section(records: Sequence[Results]) -> str:
    """IIC's accuracy and training time on CIFAR10 with the published schedule and shorter ones."""
    lines = [
        "| | task-aware ACC, train | | task-agnostic (legacy) all, test | training s, without compilation |",
        "|---|---|---|---|---|",
    ]
    notes = []
    published = [each("iic")["cifar10"] for each in (task_aware_acc, task_agnostic_all)]
    for record in records:
        if (record.method, record.benchmark) == ("iic", "cifar10") and record.recipe in SCHEDULES:
            seconds = sum(stage.seconds for stage in {**record.reused, **record.timing}.values())
            aware, every = (100 * (score(record, path) or 0.0) for path in (ACC, AGNOSTIC))
            name = f"ours, {record.recipe}, seed {record.seed}"
            mark = "*" if record.note else ""
            word = f"{outcome(aware, published[0])} (n = 1)"
            lines.append(f"| {name}{mark} | {aware:.1f} | {word} | {every:.1f} | {seconds:.0f} |")
            notes += [f"\\* {name}: {record.note}."] if mark else []
    lines.append(f"| paper, 500 epochs | {published[0]} | | {published[1]} | |")
    return "\n".join([*lines, "", *notes])


def sections(results: Path) -> dict[str, str]:
    """Name → text of every generated section."""
    records = load_records(results)
    example = (results.parent / "examples" / "new_method.py").read_text(encoding="utf-8")
    return {
        "new-method": f"```python\n{example}```",
        "iic": iic_section(records),
        "catalogue": catalogue_section(records),
        "methods": methods_section(records),
        "digits": digits_section(records),
        "demo": demo_section(records),
        "tables": tables_section(records),
        "speed": speed_section(results),
        "training": training_section(records),
        "headline": headline(results),
        "vectors": vectors_section(results),
        "mixed": mixed_section(results),
        "starts": starts_section(results),
        "piles": piles_section(results / "piles.json"),
        "number": number_section(results / "number" / "lite0.json"),
        "scale": scale_section(results),
        "loader": loader_section(results),
        "many": many_section(results),
    }


def generated(text: str, parts: Mapping[str, str]) -> str:
    """The page with its generated sections, each between `<!-- name -->` and `<!-- /name -->`, rewritten."""
    for name, part in parts.items():
        marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = marks.sub(lambda found, part=part: f"{found[1]}{part}\n{found[2]}", text)  # type: ignore[misc]
    return text


def pages(root: Path) -> list[Path]:
    """README.md and the pages under docs/."""
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def main() -> None:
    """Rewrite the pages in the current folder."""
    parts = sections(Path("results"))
    for page in pages(Path()):
        page.write_text(generated(page.read_text(encoding="utf-8"), parts), encoding="utf-8")


if __name__ == "__main__":
    main()
