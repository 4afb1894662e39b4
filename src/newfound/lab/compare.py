"""A comparison of methods on one benchmark: means over seeds, the papers' numbers, times; in four formats."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from rich import box
from rich.table import Table

from newfound.core.files import write_text
from newfound.core.registry import method_entry, method_names, recipe_for
from newfound.core.source import Source
from newfound.lab.batch import Job
from newfound.lab.paper import task_agnostic_all, task_aware_acc
from newfound.lab.recorded import ACC, Measured, over
from newfound.run.folder import Folder
from newfound.run.models import Results

HEADINGS = (
    "method",
    "settings",
    "task-aware ACC",
    "task-aware ACC, paper",
    "task-agnostic all",
    "task-agnostic all, paper",
    "seconds",
    "images/s",
)
COLUMNS = (
    *("method", "settings", "n"),
    *("task_aware_acc_mean", "task_aware_acc_std", "task_aware_acc_paper"),
    *("task_agnostic_all_mean", "task_agnostic_all_std", "task_agnostic_all_paper"),
    *("seconds", "images_per_second"),
)


@dataclass(frozen=True)
class Row:
    """What the runs of one method measured, and what its paper reports; None where there is no number."""

    method: str
    settings: str
    """Whose settings: `published`, `newfound` (ours), `default` or `matched`."""
    runs: int
    aware: Measured | None
    aware_paper: float | None
    agnostic: Measured | None
    agnostic_paper: float | None
    seconds: float
    rate: float | None

    def words(self) -> list[str]:
        """The cells for people, under HEADINGS."""
        return [
            *(self.method, self.settings),
            *(str(self.aware or ""), _rounded(self.aware_paper, ".1f")),
            *(str(self.agnostic or ""), _rounded(self.agnostic_paper, ".1f")),
            *(f"{self.seconds:.1f}", _rounded(self.rate, ",.0f")),
        ]

    def numbers(self) -> list[str]:
        """The cells for programs, under COLUMNS: one number in each."""
        return [
            *(self.method, self.settings, str(self.runs)),
            *(*_mean_and_std(self.aware), _rounded(self.aware_paper)),
            *(*_mean_and_std(self.agnostic), _rounded(self.agnostic_paper)),
            *(_rounded(self.seconds), _rounded(self.rate)),
        ]


@dataclass(frozen=True)
class Comparison:
    """A title that says what was compared and how, and a row for each method."""

    title: str
    rows: list[Row]


def compare_jobs(methods: Sequence[str], seeds: int, source: Source, track: str, out: Path) -> list[Job]:
    """A run of each method with each seed; `all` stands for every method."""
    names = method_names() if list(methods) == ["all"] else list(dict.fromkeys(methods))
    place = place_of(source, track, out)
    return [
        Job(
            f"{name} seed {seed}",
            Folder(place / f"{name}-seed{seed}", shared=place.parent / "pretrained"),
            recipe_for(name, source.name, {"seed": seed, "track": track}),
        )
        for name in names
        for seed in range(seeds)
    ]


def place_of(source: Source, track: str, out: Path) -> Path:
    """The folder of the runs and tables of a benchmark, or a subset of it, on a track."""
    part = "" if source.subset is None else f"-{source.subset}-of-each"
    return out / f"{source.name}{part}" / track


def write_comparison(source: Source, track: str, out: Path) -> list[Path]:
    """Write tables of all finished runs in the folder, whichever commands made them."""
    place = place_of(source, track, out)
    finished = sorted(_finished(place, source, track), key=lambda each: (each.method, each.seed))
    comparison = compare_records(finished, source, track)
    for suffix, as_text in FORMATS.items():
        write_text(place / f"comparison.{suffix}", as_text(comparison))
    return [place / f"comparison.{suffix}" for suffix in FORMATS]


def _finished(place: Path, source: Source, track: str) -> Iterator[Results]:
    """The results of the finished runs in `place` that belong to this comparison."""
    for path in place.glob("*-seed*/results.json"):
        folder = Folder(path.parent)
        results, request = folder.read_results(), folder.request()
        if results.method not in method_names() or request.versions != method_entry(results.method).versions:
            continue
        recipe = recipe_for(results.method, source.name, {"seed": results.seed, "track": track})
        wanted = source.name, source.subset, recipe.flat() | {"views": source.views}
        if (results.benchmark, results.subset, results.config) == wanted:
            yield results


def compare_records(records: Sequence[Results], source: Source, track: str) -> Comparison:
    """The comparison of some records, with a row for each method in their order."""
    methods = list(dict.fromkeys(record.method for record in records))
    rows = [
        _row(method, [record for record in records if record.method == method], source.name, track)
        for method in methods
    ]
    part = "" if source.subset is None else f", at most {source.subset} images of each class"
    whose = " and ".join(dict.fromkeys(row.settings for row in rows))
    settings = "" if track == "matched" else f", {whose} settings"
    title = (
        f"{source.name}{part}, {track} track{settings}; accuracies in %: task-aware on the unlabelled "
        "training images, task-agnostic on the test images with legacy matching; mean ± std over n seeds; "
        "seconds and images/s of discovery"
    )
    return Comparison(title, rows)


def _row(method: str, records: Sequence[Results], benchmark: str, track: str) -> Row:
    published = track == "published"
    timing = [record.discovery for record in records]
    rates = [each.images / each.seconds for each in timing if each.images and each.seconds]
    return Row(
        method=method,
        settings=method_entry(method).values_for(benchmark)[0] if published else track,
        runs=len(records),
        aware=over(records, ACC),
        aware_paper=task_aware_acc(method).get(benchmark) if published else None,
        agnostic=over(records, "task_agnostic.legacy.all"),
        agnostic_paper=task_agnostic_all(method).get(benchmark) if published else None,
        seconds=fmean(each.seconds for each in timing),
        rate=fmean(rates) if rates else None,
    )


def _rounded(number: float | None, form: str = ".4f") -> str:
    return "" if number is None else f"{number:{form}}"


def _mean_and_std(measured: Measured | None) -> tuple[str, str]:
    return ("", "") if measured is None else (_rounded(measured.mean), _rounded(measured.std))


def terminal_table(comparison: Comparison) -> Table:
    """The comparison for the terminal."""
    table = Table(title=comparison.title, box=box.SIMPLE_HEAD)
    for index, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="right" if index else "left")
    for row in comparison.rows:
        table.add_row(*row.words())
    return table


def as_csv(comparison: Comparison) -> str:
    """The comparison as CSV: one number in a column, and no title."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([COLUMNS, *(row.numbers() for row in comparison.rows)])
    return out.getvalue()


def as_markdown(comparison: Comparison) -> str:
    """The comparison as Markdown, for a README or an issue."""
    rows = [HEADINGS, ["---", *("---:" for _ in HEADINGS[1:])], *(row.words() for row in comparison.rows)]
    return "\n".join([comparison.title, "", *(f"| {' | '.join(row)} |" for row in rows), ""])


def as_latex(comparison: Comparison) -> str:
    """The comparison as LaTeX, for a paper; the title is the caption."""
    rows = [
        " & ".join(map(_latex_text, row)) + r" \\"
        for row in (HEADINGS, *(each.words() for each in comparison.rows))
    ]
    columns = "l" + "r" * (len(HEADINGS) - 1)
    lines = [r"\begin{table}", rf"\caption{{{_latex_text(comparison.title)}}}"]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\hline", rows[0], r"\hline"]
    return "\n".join([*lines, *rows[1:], r"\hline", r"\end{tabular}", r"\end{table}", ""])


def _latex_text(cell: str) -> str:
    return cell.replace("%", r"\%").replace("±", r"$\pm$").replace("_", r"\_")


FORMATS: Mapping[str, Callable[[Comparison], str]] = {"csv": as_csv, "md": as_markdown, "tex": as_latex}
"""File suffix → how a comparison is written."""
