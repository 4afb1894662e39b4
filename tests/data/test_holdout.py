"""Known classes in the part of the novel ones, and nothing left of the true novel ones."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from newfound.core.errors import DataError, UsageError
from newfound.core.records import Task
from newfound.data.holdout import hold_out, usual_held_out
from newfound.data.images import Dataset, ImageSet, Look, ResidentImages, Split, StreamedImages, Truth
from newfound.data.subsets import TEST_EVERY

LOOK = Look(4, "cifar", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), stored=4)
NAMES = ("ant", "bee", "crab", "dog", "eel", "fox")
KNOWN, COPIES = 4, 6


def _images(role: str, labels: list[int]) -> ResidentImages:
    """Images whose pixels say their role, class and row."""
    pixels = torch.zeros(len(labels), 3, 4, 4, dtype=torch.uint8)
    pixels[:, 0] = len(role)
    pixels[:, 1] = torch.tensor(labels)[:, None, None]
    pixels[:, 2] = torch.arange(len(labels))[:, None, None]
    return ResidentImages(pixels, [f"{role}-{row}" for row in range(len(labels))])


def _dataset(known: int = KNOWN, copies: int = COPIES) -> Dataset:
    """`copies` images of each class, the classes taking turns; the last two are novel."""
    labels, novel = list(range(known)) * copies, [known, known + 1] * copies
    test = list(range(known + 2)) * 2
    split = Split(
        _images("train", labels), torch.tensor(labels), _images("pile", novel), Task(known, 2), LOOK
    )
    truth = Truth(torch.tensor(novel), _images("test", test), torch.tensor(test))
    return Dataset("toy", split, truth, (*NAMES[:known], "new-1", "new-2"), ("a.png: torn",), "toy")


def _rows(images: ImageSet) -> list[tuple[str, int, int]]:
    """Name, class and row of each image, as its pixels say."""
    pixels = images.take(torch.arange(len(images)))
    return [(name, int(p[1, 0, 0]), int(p[2, 0, 0])) for name, p in zip(images.names, pixels, strict=True)]


def _truth(dataset: Dataset) -> Truth:
    assert dataset.truth is not None
    return dataset.truth


def test_the_last_known_classes_play_the_novel_ones() -> None:
    held = hold_out(_dataset(), 2)
    split, truth = held.split, _truth(held)
    labels = list(range(KNOWN)) * COPIES
    every = [(f"train-{row}", label, row) for row, label in enumerate(labels)]
    assert _rows(split.labelled) == [image for image in every if image[1] < 2]
    assert _rows(split.unlabelled) == [image for image in every if image[1] >= 2]
    assert split.labels.tolist() == [label for label in labels if label < 2]
    assert truth.labels.tolist() == [label for label in labels if label >= 2]
    assert (split.task.num_known, split.task.num_novel) == (2, 2)
    assert split.task.num_unlabelled == 2 * COPIES
    assert _rows(truth.test) == [(f"test-{r}", r % 6, r) for r in range(12) if r % 6 < KNOWN]
    assert truth.test_labels.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert held.class_names == NAMES[:KNOWN]
    assert held.skipped == ("a.png: torn",)
    assert "12 labelled images of 2 known classes, 12 unlabelled for 2 novel" in held.note
    assert held.note.endswith("held out: crab, dog")


def test_nothing_of_the_novel_classes_is_left() -> None:
    """Whatever their pixels and labels are, the same data set comes out, to its last word."""
    dataset = _dataset()
    split, truth = dataset.split, _truth(dataset)
    noise = torch.full_like(split.unlabelled.take(torch.arange(len(split.unlabelled))), 255)
    test = truth.test.take(torch.arange(len(truth.test)))
    test[truth.test_labels >= KNOWN] = 255
    other = replace(
        dataset,
        split=replace(split, unlabelled=ResidentImages(noise, ["?"] * len(noise))),
        truth=Truth(truth.labels.flip(0), ResidentImages(test, truth.test.names), truth.test_labels),
        class_names=(*NAMES[:KNOWN], "x", "y"),
    )
    assert other.fingerprint() != dataset.fingerprint()
    first, second = hold_out(dataset, 2), hold_out(other, 2)
    assert first.fingerprint() == second.fingerprint()
    assert (first.class_names, first.note) == (second.class_names, second.note)
    fewer = replace(split, unlabelled=_images("pile", [4, 5]))
    assert hold_out(replace(dataset, split=fewer), 2).fingerprint() == first.fingerprint()


def test_images_without_a_truth_give_some_up_for_test() -> None:
    held = hold_out(replace(_dataset(copies=11), truth=None), 2)
    split, truth = held.split, _truth(held)
    assert TEST_EVERY == 5
    # Of the 11 images of a class, the fifth and the tenth.
    assert _rows(truth.test) == [(f"train-{r}", r % KNOWN, r) for r in (*range(16, 20), *range(36, 40))]
    assert truth.test_labels.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert truth.labels.bincount().tolist() == [0, 0, 9, 9]
    names = [*split.labelled.names, *split.unlabelled.names, *truth.test.names]
    assert sorted(names) == sorted(f"train-{row}" for row in range(44))


def test_too_few_images_to_give_any_up() -> None:
    dataset = replace(_dataset(copies=5), truth=None)
    hold_out(dataset, 2)
    lacking = torch.arange(20) != 2
    labels = dataset.split.labels[lacking]
    split = replace(dataset.split, labelled=_images("train", labels.tolist()), labels=labels)
    with pytest.raises(DataError, match=r"at least 5 images of each known class.*got 4 of 'crab'"):
        hold_out(replace(dataset, split=split), 2)


def test_streamed_images_stay_streamed(tmp_path: Path, paint: Callable[..., str]) -> None:
    paths = [paint(tmp_path / f"{n}.png", (n, 2 * n, 3 * n)) for n in range(8)]
    dataset = _dataset()
    labels = torch.tensor([0, 1, 2, 3] * 2)
    split = replace(dataset.split, labelled=StreamedImages(paths, (4, 4)), labels=labels)
    held = hold_out(replace(dataset, split=split), 2).split
    assert isinstance(held.unlabelled, StreamedImages)
    assert list(held.labelled.names) == [paths[row] for row in (0, 1, 4, 5)]
    assert held.unlabelled.take(torch.tensor([3]))[0, :, 0, 0].tolist() == [7, 14, 21]


@pytest.mark.parametrize(
    ("known", "number"), [(4, 2), (5, 2), (9, 3), (10, 4), (50, 20), (80, 32), (882, 352)]
)
def test_two_fifths_are_usual(known: int, number: int) -> None:
    assert usual_held_out(known) == number
    assert known - number >= 2


@pytest.mark.parametrize("number", [-1, 0, 1, 3, 4, 10**9])
def test_a_number_that_leaves_too_little(number: int) -> None:
    with pytest.raises(UsageError, match=rf"from 2 to 2 of 4 known classes; got {number};.*hold out 2$"):
        hold_out(_dataset(), number)


def test_fewer_than_four_known_classes() -> None:
    with pytest.raises(DataError, match=r"at least 4 known classes, 2 of them to hold out; got 3"):
        hold_out(_dataset(known=3), 2)
