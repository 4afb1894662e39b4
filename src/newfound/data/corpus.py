"""A data set whose every image has a class, and the cut that hides some of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from newfound.core.errors import DataError
from newfound.core.records import Task
from newfound.data.images import ImageSet, Look, Split, Truth
from newfound.data.subsets import Rows, rank_in_class


@dataclass(frozen=True)
class Part:
    """The images for training, or those for test."""

    labels: Rows
    """(n,) positions in the corpus's classes."""
    pick: Callable[[Rows], ImageSet]
    """Rows → their images."""


@dataclass(frozen=True)
class Corpus:
    """All there is of a data set, in its official order."""

    classes: tuple[str, ...]
    train: Part
    test: Part


def cut(
    corpus: Corpus, known: Sequence[str], novel: Sequence[str], look: Look, subset: int | None
) -> tuple[Split, Truth]:
    """Known classes become labelled, novel ones unlabelled; `subset` keeps so many images of each class."""
    joint = np.full(len(corpus.classes), -1, np.int64)
    joint[[corpus.classes.index(name) for name in (*known, *novel)]] = np.arange(len(known) + len(novel))
    task = Task(len(known), len(novel))
    train, test = (joint[part.labels] for part in (corpus.train, corpus.test))
    for labels, role in ((train, "training"), (test, "test")):
        _check_all_present(labels, (*known, *novel), role)
    labelled = _rows(train, 0, task.num_known, subset)
    unlabelled = _rows(train, task.num_known, task.num_classes, subset)
    for_test = _rows(test, 0, task.num_classes, subset)
    split = Split(
        corpus.train.pick(labelled), _tensor(train[labelled]), corpus.train.pick(unlabelled), task, look
    )
    return split, Truth(_tensor(train[unlabelled]), corpus.test.pick(for_test), _tensor(test[for_test]))


def _rows(labels: Rows, first: int, end: int, subset: int | None) -> Rows:
    """Rows of the classes first .. end - 1, in the order of the files."""
    chosen = (labels >= first) & (labels < end)
    if subset is not None:
        chosen &= rank_in_class(labels) < subset
    return np.flatnonzero(chosen)


def _tensor(labels: Rows) -> Tensor:
    return torch.from_numpy(labels)


def _check_all_present(labels: Rows, names: Sequence[str], role: str) -> None:
    absent = np.setdiff1d(np.arange(len(names)), labels)
    if len(absent):
        raise DataError(
            f"there must be {role} images of all {len(names)} classes; got none of {len(absent)}, "
            f"first {names[absent[0]]!r}; unpack the official files again"
        )
