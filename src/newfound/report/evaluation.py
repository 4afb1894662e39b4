"""Every number of both protocols for one run, as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table


def evaluation_tables(report: Mapping[str, Any], novel_names: Sequence[str]) -> list[Table]:
    """The report of an evaluation → one table for each protocol and one for the novel classes."""
    return [
        _aware(report["task_aware"]),
        _agnostic(report["task_agnostic"]),
        _classes(report["task_aware"], novel_names),
    ]


def _aware(splits: Mapping[str, Any]) -> Table:
    table = Table(
        "split", "head", "ACC %", "NMI", "ARI", title="task-aware: novel images, novel heads, Hungarian"
    )
    for split, numbers in splits.items():
        for head in ("mean", "best_head"):
            acc, nmi, ari = (numbers[metric][head] for metric in ("acc", "nmi", "ari"))
            table.add_row(split, _HEADS[head], _percent(acc), f"{nmi:.4f}", f"{ari:.4f}")
    return table


def _agnostic(matchings: Mapping[str, Any]) -> Table:
    table = Table(
        "matching", "head", "known %", "novel %", "all %", title="task-agnostic: all test images, all classes"
    )
    for matching, numbers in matchings.items():
        for head in ("mean", "best_head"):
            cells = (_percent(numbers[part][head]) for part in ("known", "novel", "all"))
            table.add_row(matching, _HEADS[head], *cells)
    return table


def _classes(splits: Mapping[str, Any], names: Sequence[str]) -> Table:
    table = Table(
        "novel class",
        *(f"{split} ACC %" for split in splits),
        title="task-aware, each class, head of lowest loss",
    )
    for index, name in enumerate(names):
        table.add_row(name, *(_percent(numbers["per_class_accuracy"][index]) for numbers in splits.values()))
    for split, numbers in splits.items():
        sizes = ", ".join(map(str, numbers["cluster_sizes"]))
        table.caption = f"{table.caption or ''}images in each cluster, {split}: {sizes}\n"
    return table


_HEADS = {"mean": "mean over heads", "best_head": "head of lowest loss"}


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"
