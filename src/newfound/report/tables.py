"""The table of results: a line for each method, the protocol's name above its numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table

_GROUPS = (
    ("task-aware\nunlabelled train", "task_aware", "train", {"acc": "ACC", "nmi": "NMI", "ari": "ARI"}),
    ("task-aware\nnovel test", "task_aware", "test", {"acc": "ACC", "nmi": "NMI", "ari": "ARI"}),
    ("task-agnostic\ntest, legacy", "task_agnostic", "legacy", {k: k for k in ("known", "novel", "all")}),
)
_CAPTION = (
    "Accuracies in %, mean over the heads. Task-aware: among the novel classes, "
    "Hungarian matching. Task-agnostic: among all classes, legacy matching within the novel images."
)


@dataclass(frozen=True)
class Row:
    """A method, its report as plain dicts, and how long it took."""

    method: str
    results: Mapping[str, Any]
    seconds: float | None = None


def results_table(rows: Sequence[Row], title: str) -> Table:
    """The rows as a table for the terminal; what a row did not measure stays blank."""
    table = Table(title=title, caption=_CAPTION, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("\n\nmethod")
    for heading, _, _, metrics in _GROUPS:
        table.add_column(f"{heading}\n{_aligned(metrics.values())}", justify="right", no_wrap=True)
    table.add_column("\n\nseconds", justify="right", no_wrap=True)
    for row in rows:
        cells = [_cell(row.results.get(protocol, {}).get(part, {}), m) for _, protocol, part, m in _GROUPS]
        table.add_row(row.method, *cells, "" if row.seconds is None else f"{row.seconds:.1f}")
    return table


DEMO = {
    "kmeans-pixels": "k-means on raw pixels",
    "kmeans": "k-means on pretrained features",
    "uno-v2": "UNO v2",
    "iic": "IIC",
}
"""The methods that the demo compares."""


def demo_recipe(method: str) -> str:
    """k-means sees the features that the others start from, so it runs on the matched track."""
    return "matched" if method == "kmeans" else "newfound"


def demo_table(records: Iterable[Mapping[str, Any]]) -> Table:
    """The demo's one table: a record of each of its methods."""
    rows = [Row(DEMO[record["method"]], record, _discovery_seconds(record)) for record in records]
    title = (
        "digits 5-9 found knowing 0-4; published track with our settings, k-means on the matched track;\n"
        "one run, seconds without pretraining"
    )
    return results_table(rows, title)


def _discovery_seconds(record: Mapping[str, Any]) -> float | None:
    timing = record["timing"].get("discover")
    return None if timing is None else float(timing["seconds"])


def _cell(numbers: Mapping[str, Any], metrics: Iterable[str]) -> str:
    return _aligned(_number(metric, numbers.get(metric, {}).get("mean")) for metric in metrics)


def _number(metric: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if metric in ("nmi", "ari") else f"{100 * value:.1f}"


def _aligned(words: Iterable[str]) -> str:
    return " ".join(f"{word:>5}" for word in words)
