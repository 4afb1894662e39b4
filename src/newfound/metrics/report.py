"""What an evaluation reports: each number as the mean over the heads and as the head of the lowest loss says.

`Report.as_dict()` is what results.json holds and what the tables print.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from statistics import fmean
from typing import Any

from newfound.metrics.protocols import Accuracies, Clustering, Matching


@dataclass(frozen=True)
class Number:
    """A metric over the heads; None where there was nothing to measure."""

    mean: float | None
    best_head: float | None


@dataclass(frozen=True)
class TaskAware:
    """One split by the task-aware protocol; the two lists are those of the best head."""

    acc: Number
    nmi: Number
    ari: Number
    per_class_accuracy: list[float | None]
    cluster_sizes: list[int]


@dataclass(frozen=True)
class TaskAgnostic:
    """The test images by the task-agnostic protocol under one matching."""

    known: Number
    novel: Number
    all: Number


@dataclass(frozen=True)
class Report:
    """Both protocols: task-aware by split, task-agnostic by matching."""

    task_aware: Mapping[str, TaskAware]
    task_agnostic: Mapping[Matching, TaskAgnostic]

    def as_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers, ready for JSON."""
        return {
            "task_aware": {split: asdict(record) for split, record in self.task_aware.items()},
            "task_agnostic": {matching: asdict(record) for matching, record in self.task_agnostic.items()},
        }


def summarise(
    best_head: int,
    task_aware: Mapping[str, Sequence[Clustering]],
    task_agnostic: Sequence[Mapping[Matching, Accuracies]] = (),
) -> Report:
    """The heads' records → one report.

    `best_head` is the head of the lowest training loss, never chosen by accuracy; `task_aware` maps a split
    ("train", "test") to what `protocols.task_aware` says of it. A protocol that was not run stays empty.
    """
    matchings = task_agnostic[best_head] if task_agnostic else {}
    return Report(
        {split: _over_heads(heads, best_head) for split, heads in task_aware.items()},
        {name: _over_matched([head[name] for head in task_agnostic], best_head) for name in matchings},
    )


def _over_heads(heads: Sequence[Clustering], best: int) -> TaskAware:
    return TaskAware(
        acc=_number([head.acc for head in heads], best),
        nmi=_number([head.nmi for head in heads], best),
        ari=_number([head.ari for head in heads], best),
        per_class_accuracy=[_or_none(value) for value in heads[best].per_class_accuracy],
        cluster_sizes=list(heads[best].cluster_sizes),
    )


def _over_matched(heads: Sequence[Accuracies], best: int) -> TaskAgnostic:
    return TaskAgnostic(
        known=_number([head.known for head in heads], best),
        novel=_number([head.novel for head in heads], best),
        all=_number([head.all for head in heads], best),
    )


def _number(values: Sequence[float], best: int) -> Number:
    return Number(mean=_or_none(fmean(values)), best_head=_or_none(values[best]))


def _or_none(value: float) -> float | None:
    """JSON has no nan."""
    return None if isnan(value) else value


def warnings_for(cluster_sizes: Sequence[int], names: Sequence[str] | None = None) -> list[str]:
    """What looks like collapse: empty clusters, and one that holds most of the images, of two nearly all."""
    total = sum(cluster_sizes)
    names = names or [str(index) for index in range(len(cluster_sizes))]
    if not total:
        return []
    empty = [name for name, size in zip(names, cluster_sizes, strict=True) if not size]
    warnings = []
    if empty:
        warnings.append(
            f"{len(empty)} of {len(names)} novel clusters got no image: {', '.join(empty)}; "
            "there may be fewer novel classes than that"
        )
    largest = max(range(len(cluster_sizes)), key=lambda index: cluster_sizes[index])
    share = cluster_sizes[largest] / total
    if share < 1 and share > (0.5 if len(cluster_sizes) > 2 else 0.9):
        warnings.append(
            f"novel cluster {names[largest]} holds {share:.0%} of the images; "
            "the clusters may have collapsed, or one class is far larger than the others"
        )
    return warnings
