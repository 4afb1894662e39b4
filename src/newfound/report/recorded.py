"""The measured runs under results/: BENCHMARK/METHOD[-RECIPE]-seedK.json, in the format of results.json."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from newfound.core.registry import changes_nothing
from newfound.engine.files import read_json
from newfound.report.paper import BENCHMARKS, task_aware_acc

CLOSE = 1.0
"""Points below the paper's value that still count as reproduced."""

SUBSETS = {"imagenet-30": ("imagenet-30-a", "imagenet-30-b", "imagenet-30-c")}
"""Benchmarks of several parts, over which papers give a mean."""


@dataclass(frozen=True)
class Measured:
    """A number over the seeds of one method on one benchmark."""

    mean: float
    std: float | None
    count: int

    def __str__(self) -> str:
        digits = 1 if self.mean > 1 else 4
        spread = "" if self.std is None else f" ± {self.std:.{digits}f}"
        return f"{self.mean:.{digits}f}{spread} (n = {self.count})"


def load_records(folder: Path) -> list[dict[str, Any]]:
    """Every recorded run, sorted by its path."""
    paths = sorted(folder.glob("*/*-seed*.json"))
    return [
        read_json(path, ("method", "recipe", "benchmark"), "remove it and record it anew") for path in paths
    ]


def measured(
    records: Sequence[dict[str, Any]],
    method: str,
    benchmark: str,
    path: str,
    recipe: str,
    scale: float = 100.0,
) -> Measured | None:
    """The number at `path` (such as task_aware.train.acc), mean over heads, over the seeds of a recipe.

    A seed of imagenet-30 is the mean of its three subsets, and none where one is missing; ours stand for
    published values where a paper gives none; the usual recipe, whosever it is, for a variation that changes
    nothing.
    """
    names = {recipe}
    if recipe == "published":
        names |= {"newfound"}
    elif changes_nothing(method, benchmark, recipe):
        names |= {"published", "newfound", "default"}
    parts = SUBSETS.get(benchmark, (benchmark,))
    values: dict[int, dict[str, float]] = {}
    for record in records:
        if record["method"] == method and record["recipe"] in names and record["benchmark"] in parts:
            number = _at(record, path)
            if number is not None:
                values.setdefault(record["seed"], {})[record["benchmark"]] = scale * number
    return _over([fmean(each.values()) for each in values.values() if len(each) == len(parts)])


def over(records: Sequence[Mapping[str, Any]], path: str) -> Measured | None:
    """The number at `path` in %, mean over heads, over the records that have it."""
    return _over([100 * number for record in records if (number := _at(record, path)) is not None])


def _over(values: Sequence[float]) -> Measured | None:
    if not values:
        return None
    return Measured(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def _at(record: Mapping[str, Any], path: str) -> float | None:
    for part in path.split("."):
        record = record.get(part, {})
    number: float | None = record.get("mean")
    return number


def status(records: Sequence[dict[str, Any]], method: str) -> str:
    """What the recorded runs say: implemented, or reproduced or missed on each benchmark, and by how much.

    Where nothing is published to compare with, measured.
    """
    published, lines = task_aware_acc(method), []
    for benchmark in BENCHMARKS:
        ours = measured(records, method, benchmark, "task_aware.train.acc", "published")
        if ours is not None and benchmark in published:
            word = "reproduced" if ours.mean >= published[benchmark] - CLOSE else "missed"
            lines.append(f"{word} on {benchmark}: {ours} against {published[benchmark]}")
        elif ours is not None:
            lines.append(f"measured on {benchmark}: {ours}")
    return "; ".join(lines) or "implemented"
