"""Known classes held out as if they were novel: settings can be tried without one label of a novel class."""

from dataclasses import replace

import torch
from torch import Tensor

from newfound.core.errors import DataError, UsageError
from newfound.core.records import Task
from newfound.data.assemble import contents
from newfound.data.images import Dataset, ImageSet, Split, Truth
from newfound.data.subsets import TEST_EVERY, rank_in_class

FEWEST = 2
"""Classes on either side of the cut."""
Labelled = tuple[ImageSet, Tensor]
"""Images and their (n,) classes."""


def usual_held_out(num_known: int) -> int:
    """Two fifths of the known classes, at least two."""
    return max(2 * num_known // 5, FEWEST)


def hold_out(dataset: Dataset, number: int) -> Dataset:
    """Only the labelled images, cut anew: the last `number` known classes play the novel ones.

    Images of novel classes are dropped, and so is what is known of them. Images without a test set of their
    own give one up.
    """
    split, num_known = dataset.split, dataset.split.task.num_known
    _check(number, num_known)
    train, test = _parts(dataset)
    first, names = num_known - number, dataset.class_names[:num_known]
    labelled, labels = _where(train, train[1] < first)
    unlabelled, hidden = _where(train, train[1] >= first)
    shown = Split(labelled, labels, unlabelled, Task(first, number), split.look)
    truth = Truth(hidden, *test)
    note = f"{dataset.name}: {contents(shown, truth)}; known classes held out: {', '.join(names[first:])}"
    return replace(dataset, split=shown, truth=truth, class_names=names, note=note, origin={})


def _check(number: int, num_known: int) -> None:
    if num_known < 2 * FEWEST:
        raise DataError(
            f"there must be at least {2 * FEWEST} known classes, {FEWEST} of them to hold out; got "
            f"{num_known}; label images of more classes"
        )
    if not FEWEST <= number <= num_known - FEWEST:
        raise UsageError(
            f"--hold-out must be from {FEWEST} to {num_known - FEWEST} of {num_known} known classes; got "
            f"{number}; leave it out to hold out {usual_held_out(num_known)}"
        )


def _parts(dataset: Dataset) -> tuple[Labelled, Labelled]:
    """The images of known classes for training, and those for test."""
    known, truth = (dataset.split.labelled, dataset.split.labels), dataset.truth
    if truth is not None:
        of_known = truth.test_labels < dataset.split.task.num_known
        return known, _where((truth.test, truth.test_labels), of_known)
    fewest, at = known[1].bincount().min(0)
    if fewest < TEST_EVERY:
        raise DataError(
            f"there must be at least {TEST_EVERY} images of each known class, one of them for test; got "
            f"{fewest} of {dataset.class_names[at]!r}; add images or leave that class out"
        )
    for_test = torch.from_numpy(rank_in_class(known[1].numpy()) % TEST_EVERY == TEST_EVERY - 1)
    return _where(known, ~for_test), _where(known, for_test)


def _where(part: Labelled, chosen: Tensor) -> Labelled:
    """The rows for which `chosen` (n,) holds."""
    rows = torch.nonzero(chosen).flatten()
    return part[0].some(rows), part[1][rows]
