"""The generated parts of the README, from results/ alone: `make readme` writes them, a test compares them."""

import re
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

import newfound.experiment  # noqa: F401 (registers the methods)
from newfound.core.registry import method_entry, method_names
from newfound.report.paper import TASK_AGNOSTIC, task_aware_acc
from newfound.report.paper_tables import tables_section
from newfound.report.recorded import load_records, measured, status
from newfound.report.tables import DEMO, demo_recipe, demo_table
from tools.speed import speed_section

SCHEDULES = ("published", "fast", "half", "five-minutes")
"""Of IIC on CIFAR10, whose times are shown."""


def methods_section(records: Sequence[dict[str, Any]]) -> str:
    """A line for each method: its name, its paper, its status."""
    lines = ["| method | what it is | task-aware ACC on the training split, recorded runs |", "|---|---|---|"]
    for name in method_names():
        lines.append(f"| `{name}` | {method_entry(name).description} | {status(records, name)} |")
    return "\n".join(lines)


def digits_section(records: Sequence[dict[str, Any]]) -> str:
    """The demo's methods over the recorded seeds, then all others."""
    columns = {
        "task-aware ACC, train": "task_aware.train.acc",
        "task-aware ACC, test": "task_aware.test.acc",
        "task-agnostic (novel-ids) all, test": "task_agnostic.novel-ids.all",
    }
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    rows = {(name, demo_recipe(name)): title for name, title in DEMO.items()}
    rows |= {(name, "newfound"): f"`{name}`" for name in method_names() if (name, "newfound") not in rows}
    for (name, recipe), title in rows.items():
        cells = [measured(records, name, "digits", path, recipe) for path in columns.values()]
        if any(cells):
            lines.append(f"| {title} | {' | '.join(str(cell or '') for cell in cells)} |")
    return "\n".join(lines)


def demo_section(records: Sequence[dict[str, Any]]) -> str:
    """What the demo prints, from the recorded runs of seed 0."""
    found = {
        record["method"]: record
        for record in records
        if (record["benchmark"], record["seed"]) == ("digits", 0)
        and record["recipe"] == demo_recipe(record["method"])
    }
    out = StringIO()
    Console(file=out, width=100).print(demo_table(found[name] for name in DEMO if name in found))
    lines = (line.rstrip() for line in out.getvalue().splitlines())
    return "\n".join(["```text", *(line for line in lines if line), "```"])


def training_section(records: Sequence[dict[str, Any]]) -> str:
    """How long IIC trains on CIFAR10, with the published schedule and shorter ones, to what end."""
    lines = [
        "| | task-aware ACC, train | task-agnostic (legacy) all, test | training s, compilation apart |",
        "|---|---|---|---|",
    ]
    notes = []
    for record in records:
        recipe = record["recipe"]
        if (record["method"], record["benchmark"]) == ("iic", "cifar10") and recipe in SCHEDULES:
            stages = {**record.get("reused", {}), **record["timing"]}
            seconds = sum(stage["seconds"] for stage in stages.values())
            aware = 100 * record["task_aware"]["train"]["acc"]["mean"]
            every = 100 * record["task_agnostic"]["legacy"]["all"]["mean"]
            name = f"ours, {recipe}, seed {record['seed']}"
            mark = "*" if "note" in record else ""
            lines.append(f"| {name}{mark} | {aware:.1f} | {every:.1f} | {seconds:.0f} |")
            notes += [f"\\* {name}: {record['note']}."] if mark else []
    published = TASK_AGNOSTIC["iic"].split()[2]
    lines.append(f"| paper, 500 epochs | {task_aware_acc('iic')['cifar10']} | {published} | |")
    return "\n".join([*lines, "", *notes])


def generated(text: str, results: Path) -> str:
    """The README's `text` with each generated part written anew between its two marks."""
    records = load_records(results)
    sections = {
        "methods": methods_section(records),
        "digits": digits_section(records),
        "demo": demo_section(records),
        "tables": tables_section(records),
        "speed": speed_section(results),
        "training": training_section(records),
    }
    for name, section in sections.items():
        marks = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.DOTALL)
        text = marks.sub(lambda found, section=section: found[1] + section + found[2], text)  # type: ignore[misc]
    return text


def main() -> None:
    """Rewrite README.md in the current folder."""
    readme = Path("README.md")
    readme.write_text(generated(readme.read_text(encoding="utf-8"), Path("results")), encoding="utf-8")


if __name__ == "__main__":
    main()
