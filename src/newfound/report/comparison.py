"""Methods side by side on one benchmark: means over seeds, the paper's numbers, time; in four formats."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rich import box
from rich.table import Table

from newfound.report.paper import task_agnostic_all, task_aware_acc
from newfound.report.recorded import Measured, over

AWARE, AGNOSTIC = "task_aware.train.acc", "task_agnostic.legacy.all"
HEADINGS = (
    "method",
    "track",
    "task-aware ACC",
    "task-aware ACC, paper",
    "task-agnostic all",
    "task-agnostic all, paper",
    "seconds",
    "images/s",
)
Records = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Comparison:
    """A title that says what was compared how, and a row of text for each method."""

    title: str
    rows: list[list[str]]


def compare_records(records: Records, benchmark: str, track: str, what: str | None = None) -> Comparison:
    """One row for each method in the records, in their order; `what` tells of the data more than a name."""
    methods = list(dict.fromkeys(record["method"] for record in records))
    title = (
        f"{what or benchmark}, {track} track; accuracies in %: task-aware on the unlabelled training images, "
        "task-agnostic on the test images with legacy matching; mean ± std over n seeds; "
        "seconds and images/s of discovery"
    )
    rows = [
        _row(method, [r for r in records if r["method"] == method], benchmark, track) for method in methods
    ]
    return Comparison(title, rows)


def _row(method: str, records: Records, benchmark: str, track: str) -> list[str]:
    published = track == "published"
    timing = [record["timing"].get("discover", {"seconds": 0.0}) for record in records]
    rates = [t["images"] / t["seconds"] for t in timing if t.get("images") and t["seconds"]]
    return [
        method,
        track,
        _text(over(records, AWARE)),
        _paper(task_aware_acc(method).get(benchmark)) if published else "",
        _text(over(records, AGNOSTIC)),
        _paper(task_agnostic_all(method).get(benchmark)) if published else "",
        f"{fmean(t['seconds'] for t in timing):.1f}",
        f"{fmean(rates):,.0f}" if rates else "",
    ]


def _text(measured: Measured | None) -> str:
    return str(measured or "")


def _paper(number: float | None) -> str:
    return "" if number is None else f"{number:.1f}"


def terminal_table(comparison: Comparison) -> Table:
    """For the terminal."""
    table = Table(title=comparison.title, box=box.SIMPLE_HEAD)
    for index, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="right" if index else "left")
    for row in comparison.rows:
        table.add_row(*row)
    return table


def as_csv(comparison: Comparison) -> str:
    """Comma-separated, the title left out."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([HEADINGS, *comparison.rows])
    return out.getvalue()


def as_markdown(comparison: Comparison) -> str:
    """A table for a README or an issue."""
    rows = [HEADINGS, ["---", *("---:" for _ in HEADINGS[1:])], *comparison.rows]
    return "\n".join([comparison.title, "", *(f"| {' | '.join(row)} |" for row in rows), ""])


def as_latex(comparison: Comparison) -> str:
    """A table for a paper, its title as the caption."""
    rows = [" & ".join(map(_latex_text, row)) + r" \\" for row in (HEADINGS, *comparison.rows)]
    columns = "l" + "r" * (len(HEADINGS) - 1)
    lines = [r"\begin{table}", rf"\caption{{{_latex_text(comparison.title)}}}"]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\hline", rows[0], r"\hline"]
    return "\n".join([*lines, *rows[1:], r"\hline", r"\end{tabular}", r"\end{table}", ""])


def _latex_text(cell: str) -> str:
    return cell.replace("%", r"\%").replace("±", r"$\pm$").replace("_", r"\_")


FORMATS: Mapping[str, Callable[[Comparison], str]] = {"csv": as_csv, "md": as_markdown, "tex": as_latex}
"""File suffix → how a comparison is written."""
