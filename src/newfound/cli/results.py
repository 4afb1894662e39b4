"""Results and estimates as tables for the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from newfound.cli.console import console, show_warnings
from newfound.lab.recorded import score
from newfound.metrics.report import Record, TaskAware
from newfound.review.page import confidence_line
from newfound.run.models import Estimate, Results

_CLUSTERING = {"acc": "ACC", "nmi": "NMI", "ari": "ARI"}
_ACCURACIES = {"known": "known", "novel": "novel", "all": "all"}
_RECOGNITION = {"recognised": "known as known", "mistaken": "novel as known"}
_GROUPS: Sequence[tuple[str, str, Mapping[str, str]]] = (
    ("task-aware\nunlabelled train", "task_aware.train", _CLUSTERING),
    ("task-aware\nnovel test", "task_aware.test", _CLUSTERING),
    ("task-agnostic\ntest, legacy", "task_agnostic.legacy", _ACCURACIES),
)
_MIXED_GROUPS: Sequence[tuple[str, str, Mapping[str, str]]] = (
    ("generalised\nunlabelled train", "generalised.train", _ACCURACIES),
    ("generalised\ntest", "generalised.test", _ACCURACIES),
    _GROUPS[0],
)
_MIXED_CAPTION = (
    "Accuracies in %, mean over the heads. Generalised: among all classes, one Hungarian matching over all "
    "images. Task-aware: the novel images, among the novel classes."
)
_CAPTION = (
    "Accuracies in %, mean over the heads. Task-aware: among the novel classes, "
    "Hungarian matching. Task-agnostic: among all classes, legacy matching within the novel images."
)
_HEADS = {"mean": "mean over heads", "best_head": "head of lowest loss"}
MOST_TRIALS = 10
"""Trials at even steps in the table of an estimate, besides the best ones."""
NEAR = 2
"""Neighbours of the deciding trial, on either side, that are in the table too."""


@dataclass(frozen=True)
class Row:
    """A method with its results."""

    method: str
    results: Results
    seconds: float | None = None


def results_table(rows: Sequence[Row], title: str) -> Table:
    """A table with a row for each method; numbers that were not measured stay blank."""
    mixed = any(row.results.generalised for row in rows)
    groups, caption = (_MIXED_GROUPS, _MIXED_CAPTION) if mixed else (_GROUPS, _CAPTION)
    table = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("\n\nmethod")
    for heading, _, metrics in groups:
        table.add_column(f"{heading}\n{_aligned(metrics.values())}", justify="right", no_wrap=True)
    table.add_column("\n\nseconds", justify="right", no_wrap=True)
    for row in rows:
        cells = [
            _aligned(_number(metric, score(row.results, f"{path}.{metric}")) for metric in metrics)
            for _, path, metrics in groups
        ]
        table.add_row(row.method, *cells, "" if row.seconds is None else f"{row.seconds:.1f}")
    return table


def show_results(results: Results) -> None:
    """Print the table of one run, the sizes of its classes and its warnings."""
    if results.task_aware is not None:
        title = f"{results.benchmark}, {results.recipe} settings, one run"
        console().print(results_table([Row(results.method, results, results.seconds)], title))
    if results.generalised is not None:
        found = results.generalised.train
        console().print(
            f"Unlabelled images predicted to be of a known class: {_number('', found.recognised.mean)} % of "
            f"those of known classes, {_number('', found.mistaken.mean)} % of those of novel classes"
        )
    if results.known_sizes is not None:
        console().print(f"Images in known classes: {sum(results.known_sizes):,}")
    sizes = ", ".join(str(size) for size in results.cluster_sizes if size) or "none"
    console().print(f"Images in each novel class: {sizes}")
    if results.unsorted:
        console().print(f"Unsorted images, too far from the class they are most like: {results.unsorted:,}")
    console().print(confidence_line(results))
    show_warnings(results.warnings)


def _number(metric: str, value: float | None, more: int = 0) -> str:
    """NMI and ARI as fractions, accuracies in %; `more` digits than in a table of results."""
    if value is None:
        return ""
    return f"{value:.{3 + more}f}" if metric in ("nmi", "ari") else f"{100 * value:.{1 + more}f}"


def _aligned(words: Iterable[str]) -> str:
    """Words as columns of equal width within a cell."""
    return " ".join(f"{word:>5}" for word in words)


def evaluation_tables(results: Results) -> list[Table]:
    """A table for each evaluation protocol; none without ground truth."""
    aware, agnostic, tables = results.task_aware, results.task_agnostic, []
    if aware is not None:
        splits = {"train": aware.train, "test": aware.test}
        title = "task-aware: novel images, novel heads, Hungarian matching"
        tables += [_numbers(title, "split", splits, _CLUSTERING), _per_class(aware)]
    if agnostic is not None:
        matchings = {"legacy": agnostic.legacy, "novel-ids": agnostic.novel_ids, "joint": agnostic.joint}
        title = "task-agnostic: all test images, all classes"
        tables.insert(1, _numbers(title, "matching", matchings, _ACCURACIES))
    if results.generalised is not None:
        both = {"train": results.generalised.train, "test": results.generalised.test}
        title = "generalised: all images, all classes, one Hungarian matching"
        tables.append(_numbers(title, "split", both, _ACCURACIES | _RECOGNITION))
    return tables


def _numbers(title: str, kind: str, parts: Mapping[str, Record], metrics: Mapping[str, str]) -> Table:
    """A table with a row for each part, by the mean over the heads and by the head of lowest loss."""
    table = Table(kind, "head", *metrics.values(), title=f"{title}; accuracies in %")
    for name, numbers in parts.items():
        for head, words in _HEADS.items():
            values = (getattr(getattr(numbers, metric), head) for metric in metrics)
            cells = (_number(metric, value, 1) for metric, value in zip(metrics, values, strict=True))
            table.add_row(name, words, *cells)
    return table


def _per_class(found: TaskAware) -> Table:
    table = Table("true class", "train", "test", title="task-aware ACC in %, each novel class")
    pairs = zip(found.train.per_class_accuracy, found.test.per_class_accuracy, strict=False)
    for number, cells in enumerate(pairs, start=1):
        table.add_row(str(number), *(_number("acc", cell, 1) for cell in cells))
    return table


def curve_table(found: Estimate) -> Table:
    """A table of some trials of an estimate, with the best and the deciding ones marked."""
    marks: dict[int, list[str]] = {}
    for criterion, extra in found.preferred.items():
        marks.setdefault(extra, []).append(f"best {criterion}")
    if found.extra is not None:
        marks.setdefault(found.extra, []).append("decides")
    criteria = {
        "accuracy": f"accuracy on {'hidden' if found.num_hidden else 'known'} classes",
        "silhouette": "silhouette",
    }
    shown = [name for name in criteria if name in found.preferred]
    table = Table(
        *("clusters", *(criteria[name] for name in shown), "novel classes", ""),
        title="numbers of novel clusters tried",
        box=box.SIMPLE_HEAD,
    )
    step = -(-len(found.curve) // MOST_TRIALS)
    for place, trial in enumerate(found.curve):
        near = found.extra is not None and abs(trial.extra - found.extra) <= NEAR
        if place % step == 0 or near or trial.extra in marks:
            cells = {"accuracy": f"{trial.accuracy or 0:.1%}", "silhouette": f"{trial.silhouette or 0:.3f}"}
            mark = ", ".join(marks.get(trial.extra, ()))
            table.add_row(*(str(trial.extra), *(cells[name] for name in shown), str(trial.num_novel), mark))
    return table
