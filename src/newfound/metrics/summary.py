"""What an evaluation says: each number as the mean over the heads and as the head of the lowest loss says.

It is what results.json holds and what the tables print.
"""

from collections.abc import Mapping, Sequence
from math import isnan
from statistics import fmean
from typing import Any

from newfound.metrics.protocols import Accuracies, Clustering, Matching

MOST_LISTED = 5
"""Names in a warning; of more, it says how many there are."""


def summarise(
    best_head: int,
    task_aware: Mapping[str, Sequence[Clustering]],
    task_agnostic: Sequence[Mapping[Matching, Accuracies]] = (),
) -> dict[str, Any]:
    """The heads' records → plain dicts, lists and numbers, ready for JSON: None where nothing was measured.

    `best_head` is the head of the lowest training loss, never chosen by accuracy; `task_aware` maps a split
    ("train", "test") to what `protocols.task_aware` says of it. A protocol that was not run stays empty.
    """
    matchings = task_agnostic[best_head] if task_agnostic else {}
    return {
        "task_aware": {split: _over_heads(heads, best_head) for split, heads in task_aware.items()},
        "task_agnostic": {
            name: _numbers([head[name] for head in task_agnostic], ("known", "novel", "all"), best_head)
            for name in matchings
        },
    }


def _over_heads(heads: Sequence[Clustering], best: int) -> dict[str, Any]:
    """One split by the task-aware protocol; its lists are those of the best head."""
    return {
        **_numbers(heads, ("acc", "nmi", "ari"), best),
        "per_class_accuracy": [_or_none(value) for value in heads[best].per_class_accuracy],
        "cluster_sizes": list(heads[best].cluster_sizes),
        "class_sizes": list(heads[best].class_sizes),
    }


def _numbers(
    heads: Sequence[Clustering | Accuracies], names: Sequence[str], best: int
) -> dict[str, dict[str, float | None]]:
    """The fields of that name, each over the heads."""
    values = {name: [getattr(head, name) for head in heads] for name in names}
    return {
        name: {"mean": _or_none(fmean(each)), "best_head": _or_none(each[best])}
        for name, each in values.items()
    }


def _or_none(value: float) -> float | None:
    """JSON has no nan."""
    return None if isnan(value) else value


def warnings_for(cluster_sizes: Sequence[int], names: Sequence[str]) -> list[str]:
    """What looks like collapse: empty clusters, and one that holds most of the images, of two nearly all."""
    total = sum(cluster_sizes)
    if not total:
        return []
    empty = [name for name, size in zip(names, cluster_sizes, strict=True) if not size]
    warnings = []
    if empty:
        warnings.append(
            f"{len(empty)} of {len(names)} novel clusters got no image: {_listed(empty)}; there may be fewer "
            "novel classes than that"
        )
    largest = max(range(len(cluster_sizes)), key=lambda index: cluster_sizes[index])
    share = cluster_sizes[largest] / total
    if len(cluster_sizes) > 1 and share > (0.5 if len(cluster_sizes) > 2 else 0.9):
        warnings.append(
            f"novel cluster {names[largest]} holds {share:.0%} of the images; "
            "the clusters may have collapsed, or one class is far larger than the others"
        )
    return warnings


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - MOST_LISTED
    return ", ".join(names[:MOST_LISTED]) + (f" and {rest} more" if rest > 0 else "")
