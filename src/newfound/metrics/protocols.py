"""The two evaluation protocols as functions of scores and true classes.

Task-aware: images of novel classes, decided among the novel classes only.
Task-agnostic: images of all classes, decided among all classes, under three ways to match:

- `legacy`: as the field reports it. Known classes are not matched. Novel classes are matched within their own
  images but with all ids, so a novel class that a known id swallowed whole still counts as found.
- `novel-ids`: novel classes are matched with novel ids only; to call a novel image known is an error.
- `joint`: one assignment of all ids to all classes over all images.

Shapes: K heads, n samples, C = C_l + C_u classes. True classes are joint ids, known first; there may be more
or fewer novel ones than C_u, as happens when C_u is an estimate.
"""

from dataclasses import dataclass
from math import nan
from typing import Literal

from torch import Tensor

from newfound.core.errors import DataError
from newfound.core.records import Task
from newfound.metrics.clustering import ari, confusion, matched_hits, nmi

Matching = Literal["legacy", "novel-ids", "joint"]


@dataclass(frozen=True)
class Clustering:
    """How one set of clusters agrees with the classes; a class without images has accuracy nan."""

    acc: float
    nmi: float
    ari: float
    per_class_accuracy: list[float]
    cluster_sizes: list[int]
    class_sizes: list[int]


@dataclass(frozen=True)
class Accuracies:
    """Accuracy on the images of known classes, of novel classes and of both; nan where there are none."""

    known: float
    novel: float
    all: float


def task_aware(scores: Tensor, labels: Tensor, task: Task) -> list[Clustering]:
    """Each head by the task-aware protocol: (K, n, C_u), (n,) joint ids of novel classes → K records."""
    _check(scores, labels, task.num_known)
    clusters = scores.argmax(-1).cpu()
    classes = labels.cpu() - task.num_known
    return [clustering(head, classes, task.num_novel) for head in clusters]


def clustering(clusters: Tensor, classes: Tensor, num_clusters: int) -> Clustering:
    """One set of clusters against the classes, both counted from 0: (n,), (n,) → record."""
    num_classes = max(num_clusters, int(classes.max()) + 1)
    table = confusion(clusters, classes, num_clusters, num_classes)
    hits, sizes = matched_hits(table).tolist(), table.sum(0).tolist()
    return Clustering(
        acc=_share(sum(hits), sum(sizes)),
        nmi=nmi(clusters, classes),
        ari=ari(clusters, classes),
        per_class_accuracy=[_share(hit, size) for hit, size in zip(hits, sizes, strict=True)],
        cluster_sizes=table.sum(1).tolist(),
        class_sizes=sizes,
    )


def task_agnostic(scores: Tensor, labels: Tensor, task: Task) -> list[dict[Matching, Accuracies]]:
    """Each head by the task-agnostic protocol: (K, n, C), (n,) joint ids → K times three matchings."""
    _check(scores, labels, 0)
    num_true = max(task.num_classes, int(labels.max()) + 1)
    predicted, true = scores.argmax(-1).cpu(), labels.cpu()
    return [
        _three_matchings(confusion(head, true, task.num_classes, num_true), task.num_known)
        for head in predicted
    ]


def _three_matchings(table: Tensor, num_known: int) -> dict[Matching, Accuracies]:
    """Counts (C, T) → the accuracies under each matching."""
    known, novel = table[:, :num_known], table[:, num_known:]
    known_hits = int(known.diagonal().sum())
    joint_hits = matched_hits(table)
    hits: dict[Matching, tuple[int, int]] = {
        "legacy": (known_hits, int(matched_hits(novel).sum())),
        "novel-ids": (known_hits, int(matched_hits(novel[num_known:]).sum())),
        "joint": (int(joint_hits[:num_known].sum()), int(joint_hits[num_known:].sum())),
    }
    num_l, num_u = int(known.sum()), int(novel.sum())
    return {
        name: Accuracies(_share(hit_l, num_l), _share(hit_u, num_u), _share(hit_l + hit_u, num_l + num_u))
        for name, (hit_l, hit_u) in hits.items()
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else nan


def _check(scores: Tensor, labels: Tensor, lowest: int) -> None:
    if labels.shape != scores.shape[1:2] or not len(labels):
        raise DataError(
            f"an evaluation needs one true class for each of one or more images; got {len(labels)} classes "
            f"for {scores.shape[1]} images; leave out the images whose class is not known"
        )
    if int(labels.min()) < lowest:
        raise DataError(
            f"the true classes must be at least {lowest} here; got {int(labels.min())}; "
            "leave out the images whose class is not known"
            + (" and those of known classes, which task-aware evaluation does not take" if lowest else "")
        )
