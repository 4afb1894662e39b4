"""The generated parts of the README, from results/ alone: `make readme` writes them, a test compares them."""

import json
import re
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

import newfound.experiment  # noqa: F401 (registers the methods)
from newfound.core.registry import method_entry, method_names
from newfound.report.paper import TASK_AGNOSTIC, task_aware_acc
from newfound.report.paper_tables import TABLES
from newfound.report.recorded import load_records, measured, status
from newfound.report.tables import DEMO, demo_recipe, demo_table

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


def tables_section(records: Sequence[dict[str, Any]]) -> str:
    """The paper's tables, ours beside the published values."""
    return "\n\n".join(table.markdown(records) for table in TABLES)


def speed_section(results: Path) -> str:
    """The recorded benchmarks, a GPU first: a training step in each mode, and the straightforward one."""
    parts = []
    for path in sorted((results / "bench").glob("*.json"), key=lambda path: (path.name[:3] == "cpu", path)):
        record = json.loads(path.read_text(encoding="utf-8"))
        if not {"step", "baseline"} <= record.keys():
            parts += [_kmeans_lines(record, path)] if "kmeans" in record else []
            parts += [_methods_lines(record, path)] if "methods" in record else []
            continue
        ways = {f"ours, {mode}": way for mode, way in record["step"]["modes"].items()}
        ways["straightforward"] = slowest = record["baseline"]
        lines = [
            f"{record['method']}, {record['benchmark']}, batch {record['step']['batch_size']}, one run on "
            f"{record['hardware']} (`results/{path.parent.name}/{path.name}`):",
            "",
            "| training step | ms | images/s | times as fast |",
            "|---|---|---|---|",
            *(_speed_line(name, way, slowest) for name, way in ways.items()),
            *(["", _terms_line(record["terms"])] if "terms" in record else []),
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _methods_lines(record: dict[str, Any], path: Path) -> str:
    """A training step of every method."""
    lines = [
        f"Every method, {record['benchmark']}, one run on {record['hardware']} "
        f"(`results/{path.parent.name}/{path.name}`):",
        "",
        "| training step | mode | batch | ms | images/s |",
        "|---|---|---|---|---|",
    ]
    for name, way in record["methods"].items():
        numbers = f"{way['batch_size']} | {way['ms']:.1f} | {way['images_per_second']:,.0f}"
        lines.append(f"| `{name}` | {way['mode']} | {numbers} |")
    return "\n".join(lines)


def _kmeans_lines(record: dict[str, Any], path: Path) -> str:
    """The clusterings of an estimate beside scikit-learn's."""
    found = record["kmeans"]
    times = " and ".join(
        f"{found[key]['times_as_long']:.1f} times as fast {what}"
        for key, what in (
            ("semi_supervised", "as the same work through scikit-learn's functions"),
            ("plain", "without anchors as its `KMeans`"),
        )
        if key in found
    )
    clusters = ", ".join(map(str, found["clusters"]))
    return (
        f"Semi-supervised k-means of `newfound estimate`, {found['samples']:,} samples of "
        f"{found['features']} features, {found['restarts']} restarts with each of {clusters} clusters, "
        f"one run on {record['hardware']} (`results/{path.parent.name}/{path.name}`): {times}."
    )


def _terms_line(terms: dict[str, Any]) -> str:
    """What a step is made of, beside the straightforward way."""
    names = {"augmentation": "augmentation", "sinkhorn": "Sinkhorn", "losses": "losses"}
    times = [f"{what} {terms[key]['times_as_long']:.1f}" for key, what in names.items()]
    return f"Times as fast as the straightforward way, batch {terms['batch_size']}: {', '.join(times)}."


def _speed_line(name: str, way: dict[str, Any], slowest: dict[str, Any]) -> str:
    times = slowest["ms"] / way["ms"]
    return f"| {name} | {way['ms']:.1f} | {way['images_per_second']:,.0f} | {times:.1f} |"


def training_section(records: Sequence[dict[str, Any]]) -> str:
    """How long IIC trains on CIFAR10, with the published schedule and shorter ones, to what end."""
    lines = [
        "| | task-aware ACC, train | task-agnostic (legacy) all, test | training s, compilation apart |",
        "|---|---|---|---|",
    ]
    for record in records:
        recipe = record["recipe"]
        if (record["method"], record["benchmark"]) == ("iic", "cifar10") and recipe in SCHEDULES:
            seconds = sum(stage["seconds"] for stage in record["timing"].values())
            aware = 100 * record["task_aware"]["train"]["acc"]["mean"]
            every = 100 * record["task_agnostic"]["legacy"]["all"]["mean"]
            name = f"ours, {recipe}, seed {record['seed']}"
            lines.append(f"| {name} | {aware:.1f} | {every:.1f} | {seconds:.0f} |")
    published = TASK_AGNOSTIC["iic"].split()[2]
    lines.append(f"| paper, 500 epochs | {task_aware_acc('iic')['cifar10']} | {published} | |")
    return "\n".join(lines)


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
