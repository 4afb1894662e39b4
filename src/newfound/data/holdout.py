"""Known images that training does not see, and known classes held out as if they were novel."""

from dataclasses import replace

import torch
from torch import Tensor

from newfound.core.errors import DataError, Hint, UsageError
from newfound.core.source import Source
from newfound.data.dataset import TEST_EVERY, Dataset, Split, Truth, is_labelled, rank_in_class
from newfound.data.images import ImageSet

FEWEST = 2
"""Minimum number of classes that are held out, and that remain known."""
BACK_EVERY = 10
"""Every tenth labelled image of a class is held back."""
ENOUGH = 30
"""Minimum number of images held back, to which a temperature is fitted."""
Labelled = tuple[ImageSet, Tensor]
"""Images and their (n,) classes."""


def hold_out(dataset: Dataset, number: int | None = None, draw: int = 0) -> Dataset:
    """A data set of the labelled images alone, in which `number` known classes are treated as novel.

    These are the last ones or, with a `draw`, those before them, and so on around, so that each is held out
    once before any is held out twice. The default is two fifths of the known classes, at least two. Images of
    novel classes and all information about them are dropped. Without a test set, every fifth labelled image
    becomes a test image. If the pile may be mixed, it gets every second image of the remaining known classes.
    """
    num_known = dataset.num_known
    held_out = max(2 * num_known // 5, FEWEST) if number is None else int(number)
    if not FEWEST <= held_out <= num_known - FEWEST:
        raise UsageError(
            f"Cannot hold out {held_out} of {num_known} known classes: at least {FEWEST} must be held out, "
            f"and {FEWEST} must remain.",
            None if number is None else Hint.HOLD_OUT,
        )
    train, test = _train_and_test(dataset)
    names = dataset.class_names[:num_known]
    if draw:
        order = torch.arange(num_known).roll(draw * held_out)
        names = tuple(names[place] for place in order.tolist())
        train, test = ((images, order.argsort()[labels]) for images, labels in (train, test))
    first = num_known - held_out
    pile = dataset.split.pile
    given = torch.from_numpy(is_labelled(train[1].numpy(), first, pile))
    labelled, labels = _select(train, given)
    unlabelled, hidden = _select(train, ~given)
    update = {"held_out": held_out, "held_out_draw": draw, "num_novel": None, "estimated": None}
    source = (dataset.source or Source(arrays=dataset.fingerprint(), pile=dataset.split.pile)).model_copy(
        update=update
    )
    split = Split(labelled, labels, unlabelled, first, held_out, dataset.split.look, pile)
    return replace(dataset, split=split, truth=Truth(hidden, *test), class_names=names, source=source)


def hold_back(dataset: Dataset) -> tuple[Dataset, Labelled | None]:
    """What training may see, and images of known classes held back from it; None unless the pile is mixed.

    They come from the test set if there is one, or are every tenth labelled image of each class; None if they
    are too few.
    """
    split, truth = dataset.split, dataset.truth
    if split.pile == "novel":
        return dataset, None
    if truth is not None:
        held = _select((truth.test, truth.test_labels), truth.test_labels < split.num_known)
        return dataset, held if len(held[1]) >= ENOUGH else None
    every, back = (split.labelled, split.labels), rank_in_class(split.labels.numpy()) % BACK_EVERY
    is_back = torch.from_numpy(back == BACK_EVERY - 1)
    if is_back.sum() < ENOUGH:
        return dataset, None
    labelled, labels = _select(every, ~is_back)
    return replace(dataset, split=replace(split, labelled=labelled, labels=labels)), _select(every, is_back)


def hide_classes(split: Split, number: int) -> tuple[Split, ImageSet, Tensor]:
    """Hide the last known classes: what training may see, the hidden images, and their classes from 0."""
    first = split.num_known - number
    shown, shown_labels = _select((split.labelled, split.labels), split.labels < first)
    hidden, hidden_labels = _select((split.labelled, split.labels), split.labels >= first)
    rest = Split(shown, shown_labels, split.unlabelled, first, None, split.look, split.pile)
    return rest, hidden, hidden_labels - first


def _train_and_test(dataset: Dataset) -> tuple[Labelled, Labelled]:
    """The images of known classes, for training and for test."""
    known, truth = (dataset.split.labelled, dataset.split.labels), dataset.truth
    if truth is not None:
        return known, _select((truth.test, truth.test_labels), truth.test_labels < dataset.num_known)
    fewest, at = known[1].bincount().min(0)
    if fewest < TEST_EVERY:
        raise DataError(
            f"Holding out known classes needs at least {TEST_EVERY} images of each, one of them for test; "
            f"{dataset.class_names[at]!r} has {fewest}."
        )
    for_test = torch.from_numpy(rank_in_class(known[1].numpy()) % TEST_EVERY == TEST_EVERY - 1)
    return _select(known, ~for_test), _select(known, for_test)


def _select(part: Labelled, chosen: Tensor) -> Labelled:
    """The rows for which `chosen` (n,) is true."""
    rows = torch.nonzero(chosen).flatten()
    return part[0].select(rows), part[1][rows]
