"""What was benched, as Markdown: one piece of text for each part that a record under results/bench holds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from newfound.engine.files import read_json

Record = dict[str, Any]


def speed_section(results: Path) -> str:
    """The recorded benchmarks, those of a GPU first."""
    paths = sorted((results / "bench").glob("*.json"), key=lambda path: (path.name[:3] == "cpu", path))
    return "\n\n".join(text for path in paths for text in _texts(path))


def _texts(path: Path) -> list[str]:
    """Of a record with a step and the straightforward one, these alone: its other parts are small samples."""
    record = read_json(path, ("hardware",), "remove it and measure it anew")
    where = f"one run on {record['hardware']} (`results/{path.parent.name}/{path.name}`)"
    if {"step", "baseline"} <= record.keys():
        return [_step(record, where)]
    return [write(record, where) for part, write in PARTS.items() if part in record]


def _step(record: Record, where: str) -> str:
    """A training step in each mode, and the straightforward one."""
    ways = {f"ours, {mode}": way for mode, way in record["step"]["modes"].items()}
    ways["straightforward"] = slowest = record["baseline"]
    lines = [
        f"{record['method']}, {record['benchmark']}, batch {record['step']['batch_size']}, {where}:",
        "",
        "| training step | ms | images/s | times as fast |",
        "|---|---|---|---|",
        *(_step_line(name, way, slowest) for name, way in ways.items()),
        *(["", _terms_line(record["terms"])] if "terms" in record else []),
    ]
    return "\n".join(lines)


def _step_line(name: str, way: Record, slowest: Record) -> str:
    times = slowest["ms"] / way["ms"]
    return f"| {name} | {way['ms']:.1f} | {way['images_per_second']:,.0f} | {times:.1f} |"


def _terms_line(terms: Record) -> str:
    """What a step is made of, beside the straightforward way."""
    names = {"augmentation": "augmentation", "sinkhorn": "Sinkhorn", "losses": "losses"}
    times = [f"{what} {terms[key]['times_as_long']:.1f}" for key, what in names.items()]
    return f"Times as fast as the straightforward way, batch {terms['batch_size']}: {', '.join(times)}."


def _methods(record: Record, where: str) -> str:
    """A training step of every method."""
    lines = [
        f"Every method, {record['benchmark']}, {where}:",
        "",
        "| training step | mode | batch | ms | images/s |",
        "|---|---|---|---|---|",
    ]
    for name, way in record["methods"].items():
        numbers = f"{way['batch_size']} | {way['ms']:.1f} | {way['images_per_second']:,.0f}"
        lines.append(f"| `{name}` | {way['mode']} | {numbers} |")
    return "\n".join([*lines, *(["", f"This was {record['note']}."] if "note" in record else [])])


def _kmeans(record: Record, where: str) -> str:
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
        f"{where}: {times}."
    )


def _inter(record: Record, where: str) -> str:
    """The inter-class term: the closed form beside the matrix product, captured, and beside the loops."""
    looped = [row for row in record["inter"] if "loops" in row]
    most = max(looped, key=lambda row: row["N"] * row["C"])
    how = ", captured" if "graph_times_as_long" in most["matrix_product"] else ""
    return "\n".join(
        [
            f"The paper's matrix product for the inter-class term beside our closed form, {where}; nested "
            f"loops over {most['N']} known and {most['M']} novel images of {most['C']:,} classes take "
            f"{most['loops']['times_as_long']:,.0f} times as long:",
            "",
            f"| images, known and novel each | classes | times as long{how} | times as much memory |",
            "|---|---|---|---|",
            *map(_inter_line, record["inter"]),
        ]
    )


def _inter_line(row: Record) -> str:
    times = row["matrix_product"]
    longer = times.get("graph_times_as_long", times["times_as_long"])
    numbers = f"{longer:.1f} | {times['times_as_much_memory']:.1f}"
    return f"| {row['N']:,} | {row['C']:,} | {numbers} |"


def _evaluation(record: Record, where: str) -> str:
    found = record["evaluation"]
    return f"Evaluating {found['images']:,} images with both protocols, {where}: {found['seconds']:.1f} s."


PARTS: dict[str, Callable[[Record, str], str]] = {
    "methods": _methods,
    "inter": _inter,
    "evaluation": _evaluation,
    "kmeans": _kmeans,
}
