"""The three evaluation protocols as functions of scores and true classes.

Task-aware: images of novel classes, predicted among the novel classes only.
Task-agnostic: images of all classes, predicted among all classes, with three kinds of matching:

- `legacy`: as the field reports it. Known classes are not matched. Novel classes are matched within their own
  images but with all ids, so a novel class that a known id swallowed whole still counts as found.
- `novel-ids`: novel classes are matched with novel ids only; predicting a known class for a novel image is an
  error.
- `joint`: one assignment of all ids to all classes over all images.

Generalised: the unlabelled images of a mixed pile, predicted among all classes, with the joint matching. This
is GCD's protocol (its version 2), where known classes are called Old and novel ones New. Test images are
matched separately.

Shapes: K heads, n samples, C = C_l + C_u classes. True classes are joint ids, known first; there may be more
or fewer novel ones than C_u if that is an estimate.

Deviation: every number is given as the mean over the heads and for the head of lowest loss. In the codes of
UNO and IIC the heads share the known logits, and accuracy on known images is given for that head alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from math import isnan, nan
from statistics import fmean
from typing import Literal

from torch import Tensor

from newfound.core.records import Task
from newfound.metrics.clustering import ari, confusion, matched_hits, nmi
from newfound.metrics.report import (
    Accuracies,
    Clusters,
    Generalised,
    Recognition,
    Record,
    Report,
    Score,
    TaskAgnostic,
    TaskAware,
)

Matching = Literal["legacy", "novel-ids", "joint"]
MATCHINGS: tuple[Matching, ...] = ("legacy", "novel-ids", "joint")


@dataclass(frozen=True)
class Clustering:
    """How well one set of clusters agrees with the classes; a class without images has accuracy nan."""

    acc: float
    nmi: float
    ari: float
    per_class_accuracy: list[float]
    cluster_sizes: list[int]
    class_sizes: list[int]


@dataclass(frozen=True)
class Shares:
    """Accuracy on the images of known classes, of novel classes and of both; nan without images."""

    known: float
    novel: float
    all: float


@dataclass(frozen=True)
class Recognised(Shares):
    """Accuracies with the joint matching, and the shares of images predicted to be of a known class."""

    recognised: float
    """Share among the images of known classes."""
    mistaken: float
    """Share among the images of novel classes."""


def task_aware(scores: Tensor, labels: Tensor, task: Task) -> list[Clustering]:
    """Evaluate each head by the task-aware protocol: (K, n, C_u), (n,) joint ids → K records.

    Images of known classes are left out.
    """
    is_novel = labels >= task.num_known
    clusters = scores[:, is_novel].argmax(-1).cpu()
    classes = labels[is_novel].cpu() - task.num_known
    return [clustering(head, classes, task.num_novel) for head in clusters]


def clustering(clusters: Tensor, classes: Tensor, num_clusters: int) -> Clustering:
    """Compare one set of clusters with the classes, both numbered from 0: (n,), (n,) → record."""
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


def task_agnostic(scores: Tensor, labels: Tensor, task: Task) -> list[dict[Matching, Shares]]:
    """Evaluate each head by the task-agnostic protocol: (K, n, C), (n,) joint ids → K x three matchings."""
    return [_three_matchings(table, task.num_known) for table in _tables(scores, labels, task)]


def generalised(scores: Tensor, labels: Tensor, task: Task) -> list[Recognised]:
    """Evaluate each head by the generalised protocol: (K, n, C), (n,) joint ids → K records."""
    found = []
    for table in _tables(scores, labels, task):
        as_known = table[: task.num_known].sum(0)
        parts = slice(task.num_known), slice(task.num_known, None)
        shares = [_share(int(as_known[part].sum()), int(table[:, part].sum())) for part in parts]
        found.append(Recognised(*astuple(_three_matchings(table, task.num_known)["joint"]), *shares))
    return found


def _tables(scores: Tensor, labels: Tensor, task: Task) -> Iterator[Tensor]:
    """The counts (C, T) of each head."""
    num_true = max(task.num_classes, int(labels.max()) + 1)
    predicted, true = scores.argmax(-1).cpu(), labels.cpu()
    return (confusion(head, true, task.num_classes, num_true) for head in predicted)


def _three_matchings(table: Tensor, num_known: int) -> dict[Matching, Shares]:
    """Counts (C, T) → the accuracies with each matching."""
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
        name: Shares(_share(hit_l, num_l), _share(hit_u, num_u), _share(hit_l + hit_u, num_l + num_u))
        for name, (hit_l, hit_u) in hits.items()
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else nan


def summarise(
    best_head: int,
    train: Sequence[Clustering],
    test: Sequence[Clustering],
    agnostic: Sequence[dict[Matching, Shares]] = (),
    mixed: Sequence[Sequence[Recognised]] = (),
) -> Report:
    """The report of K heads; `best_head` is the one of lowest loss, never chosen by accuracy.

    `mixed` are the records of the generalised protocol, if it applies: of the unlabelled images and of the
    test images.
    """
    aware = TaskAware(train=_clusters(train, best_head), test=_clusters(test, best_head))
    if not agnostic:
        return Report(task_aware=aware)
    matchings = {
        name: Accuracies(**_scores([head[name] for head in agnostic], best_head, Accuracies))
        for name in MATCHINGS
    }
    report = Report(task_aware=aware, task_agnostic=TaskAgnostic.model_validate(matchings))
    if not mixed:
        return report
    of_train, of_test = (Recognition(**_scores(heads, best_head, Recognition)) for heads in mixed)
    return report.model_copy(update={"generalised": Generalised(train=of_train, test=of_test)})


def _clusters(heads: Sequence[Clustering], best: int) -> Clusters:
    return Clusters(
        **_scores(heads, best, Clusters),
        per_class_accuracy=[_or_none(value) for value in heads[best].per_class_accuracy],
        cluster_sizes=heads[best].cluster_sizes,
        class_sizes=heads[best].class_sizes,
    )


def _scores(heads: Sequence[object], best: int, record: type[Record]) -> dict[str, Score]:
    """The mean over the heads, and the value of the best head, for each score of a record."""
    names = [name for name, field in record.model_fields.items() if field.annotation is Score]
    values = {name: [getattr(head, name) for head in heads] for name in names}
    return {
        name: Score(mean=_or_none(fmean(each)), best_head=_or_none(each[best]))
        for name, each in values.items()
    }


def _or_none(value: float) -> float | None:
    """The value, or None for nan, which JSON does not have."""
    return None if isnan(value) else value
