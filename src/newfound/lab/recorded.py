"""The recorded runs: results/BENCHMARK/METHOD[-RECIPE]-seedK.json, each in the format of results.json."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from newfound.core.files import read_record
from newfound.core.registry import changes_nothing
from newfound.lab.paper import BENCHMARKS, task_aware_acc
from newfound.metrics.report import Score
from newfound.run.models import Results

ACC = "task_aware.train.acc"
TOLERANCE = 1.0
"""An accuracy within this many points of the published one counts as reproduced."""

SUBSETS = {"imagenet-30": ("imagenet-30-a", "imagenet-30-b", "imagenet-30-c")}
"""Benchmark → its subsets, over which papers report the mean."""


@dataclass(frozen=True)
class Measured:
    """A number over the seeds of one method on one benchmark."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def std(self) -> float | None:
        return stdev(self.values) if self.count > 1 else None

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def spread(self) -> str:
        """The mean and, over several seeds, the standard deviation."""
        digits = 1 if self.mean > 1 else 4
        std = "" if self.std is None else f" ± {self.std:.{digits}f}"
        return f"{self.mean:.{digits}f}{std}"

    def __str__(self) -> str:
        return f"{self.spread} (n = {self.count})"


def load_records(folder: Path) -> list[Results]:
    """Every recorded run, sorted by its path."""
    return [read_record(path, Results) for path in sorted(folder.glob("*/*-seed*.json"))]


def score(results: Results, path: str) -> float | None:
    """The number at a path such as `task_aware.train.acc`, mean over heads; None if it was not measured."""
    found: Any = results
    for part in path.split("."):
        found = getattr(found, part, None)
    return found.mean if isinstance(found, Score) else None


def measured(
    records: Sequence[Results], method: str, benchmark: str, path: str, recipe: str, scale: float = 100.0
) -> Measured | None:
    """The number at `path` over the seeds of a recipe.

    A seed of imagenet-30 is the mean of its three subsets; it does not count if one is missing. Where a paper
    publishes no settings, ours count as published. A variation that changes nothing is the usual recipe.
    """
    names = {recipe}
    if recipe == "published":
        names |= {"newfound"}
    elif changes_nothing(method, benchmark, recipe):
        names |= {"published", "newfound", "default"}
    parts = SUBSETS.get(benchmark, (benchmark,))
    values: dict[int, dict[str, float]] = {}
    for record in records:
        if record.method == method and record.recipe in names and record.benchmark in parts:
            number = score(record, path)
            if number is not None:
                values.setdefault(record.seed, {})[record.benchmark] = scale * number
    return _over([fmean(each.values()) for each in values.values() if len(each) == len(parts)])


def over(records: Sequence[Results], path: str) -> Measured | None:
    """The number at `path` in %, over the records that have it."""
    return _over([100 * number for record in records if (number := score(record, path)) is not None])


def _over(values: Sequence[float]) -> Measured | None:
    return Measured(tuple(values)) if values else None


def outcome(ours: float, published: float) -> str:
    """How an accuracy compares with the published one; a result far above it is a surprise too."""
    if abs(ours - published) <= TOLERANCE:
        return "reproduced"
    return "missed" if ours < published else "exceeded"


def deviations(ours: Measured, published: float) -> str:
    """Which runs are off, such as `1 missed: 63.5, 1 exceeded: 67.6`; empty if all are reproduced."""
    words = []
    for word in ("missed", "exceeded"):
        found = [f"{value:.1f}" for value in sorted(ours.values) if outcome(value, published) == word]
        if found:
            words.append(word if ours.count == 1 else f"{len(found)} {word}: {', '.join(found)}")
    return ", ".join(words)


def status(records: Sequence[Results], method: str) -> str:
    """What the recorded runs show: reproduced, missed or exceeded on each benchmark, and the number of seeds.

    `measured` if nothing is published to compare with, `implemented` if there are no runs.
    """
    published, lines = task_aware_acc(method), []
    for benchmark in BENCHMARKS:
        ours = measured(records, method, benchmark, ACC, "published")
        if ours is not None and benchmark in published:
            word = f"{deviations(ours, published[benchmark]) or 'reproduced'} (n = {ours.count})"
            lines.append(f"{word} on {benchmark}: {ours.spread} against {published[benchmark]}")
        elif ours is not None:
            lines.append(f"measured on {benchmark}: {ours}")
    return "; ".join(lines) or "implemented"
