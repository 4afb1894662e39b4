"""Known classes in the part of the novel ones, and nothing left of the true novel ones."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from newfound.core.errors import DataError, UsageError
from newfound.core.source import Source
from newfound.data.dataset import Dataset, Look, Split, Truth
from newfound.data.holdout import hide_classes, hold_out
from newfound.data.images import ImageSet, ResidentImages, StreamedImages
from tests.data.conftest import Paint

LOOK = Look(4, "cifar", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), stored=4)
KNOWN, COPIES = 4, 6


def _images(role: str, labels: list[int]) -> ResidentImages:
    """Images whose pixels say their role, class and row."""
    numbers = torch.tensor([[len(role), label, row] for row, label in enumerate(labels)], dtype=torch.uint8)
    pixels = numbers[:, :, None, None].expand(-1, -1, 4, 4)
    return ResidentImages(pixels, [f"{role}-{row}" for row in range(len(labels))])


def _dataset(known: int = KNOWN, copies: int = COPIES) -> Dataset:
    """`copies` images of each class, the classes taking turns; the last two are novel."""
    labels, novel = list(range(known)) * copies, [known, known + 1] * copies
    test = list(range(known + 2)) * 2
    split = Split(_images("train", labels), torch.tensor(labels), _images("pile", novel), known, 2, LOOK)
    truth = Truth(torch.tensor(novel), _images("test", test), torch.tensor(test))
    names = (*(f"class-{label}" for label in range(known)), "new-1", "new-2")
    return Dataset("toy", split, truth, names, ("a.png: torn",))


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
    assert (split.num_known, split.num_novel) == (2, 2)
    assert _rows(truth.test) == [(f"test-{r}", r % 6, r) for r in range(12) if r % 6 < KNOWN]
    assert truth.test_labels.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert (held.class_names, held.skipped) == (_dataset().class_names[:KNOWN], ("a.png: torn",))
    assert held.note.endswith("held-out known classes: class-2, class-3")
    assert held.source == Source(arrays=_dataset().fingerprint(), held_out=2, pile="novel")


@pytest.mark.parametrize(("draw", "hidden"), [(0, [3, 4]), (1, [1, 2]), (2, [4, 0])])
def test_each_known_class_is_held_out_once_before_any_is_twice(draw: int, hidden: list[int]) -> None:
    dataset = _dataset(5)
    held = hold_out(dataset, 2, draw)
    assert held.class_names[-2:] == tuple(f"class-{label}" for label in hidden)
    shown = [int(name.removeprefix("class-")) for name in held.class_names]
    assert [shown[label] for label in _truth(held).labels.tolist()] == [
        label for _, label, _ in _rows(held.split.unlabelled)
    ]


def test_nothing_of_the_novel_classes_is_left() -> None:
    """Whatever their pixels and labels are, the same data set comes out, to its last word."""
    dataset = _dataset()
    split, truth = dataset.split, _truth(dataset)
    test = truth.test.take(torch.arange(len(truth.test)))
    test[truth.test_labels >= KNOWN] = 255
    other = replace(
        dataset,
        split=replace(split, unlabelled=_images("?", [9, 9])),
        truth=Truth(truth.labels.flip(0), ResidentImages(test, truth.test.names), truth.test_labels),
        class_names=(*dataset.class_names[:KNOWN], "x", "y"),
    )
    assert other.fingerprint() != dataset.fingerprint()
    first, second = hold_out(dataset, 2), hold_out(other, 2)
    assert first.fingerprint() == second.fingerprint()
    assert (first.class_names, first.note) == (second.class_names, second.note)


def test_images_without_a_truth_give_some_up_for_test() -> None:
    held = hold_out(replace(_dataset(copies=11), truth=None), 2)
    split, truth = held.split, _truth(held)
    # Of the 11 images of a class, the fifth and the tenth.
    assert _rows(truth.test) == [(f"train-{r}", r % KNOWN, r) for r in (*range(16, 20), *range(36, 40))]
    assert truth.test_labels.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert truth.labels.bincount().tolist() == [0, 0, 9, 9]
    names = [*split.labelled.names, *split.unlabelled.names, *truth.test.names]
    assert sorted(names) == sorted(f"train-{row}" for row in range(44))
    with pytest.raises(DataError, match=r"at least 5 images of each.*'class-0' has 4"):
        hold_out(replace(_dataset(copies=4), truth=None), 2)


def test_of_a_mixed_pile_some_known_images_stay_unlabelled() -> None:
    dataset = _dataset()
    held = hold_out(replace(dataset, split=replace(dataset.split, pile="mixed")), 2)
    split, truth = held.split, _truth(held)
    labels = list(range(KNOWN)) * COPIES
    second = [row for row in range(KNOWN * COPIES) if row // KNOWN % 2]
    given = [row for row, label in enumerate(labels) if label < 2 and row not in second]
    assert [row for _, _, row in _rows(split.labelled)] == given
    assert split.labels.tolist() == [labels[row] for row in given]
    assert [row for _, _, row in _rows(split.unlabelled)] == [r for r in range(24) if r not in given]
    assert truth.labels.tolist() == [label for _, label, _ in _rows(split.unlabelled)]
    assert (split.pile, split.num_known, split.num_novel) == ("mixed", 2, 2)
    assert held.source is not None
    assert held.source.pile == "mixed"


def test_streamed_images_stay_streamed(tmp_path: Path, paint: Paint) -> None:
    paths = [paint(tmp_path / f"{n}.png", (n, 2 * n, 3 * n)) for n in range(8)]
    dataset, labels = _dataset(), torch.tensor([0, 1, 2, 3] * 2)
    split = replace(dataset.split, labelled=StreamedImages(paths, (4, 4)), labels=labels)
    held = hold_out(replace(dataset, split=split), 2).split
    assert isinstance(held.unlabelled, StreamedImages)
    assert list(held.labelled.names) == [paths[row] for row in (0, 1, 4, 5)]
    assert held.unlabelled.take(torch.tensor([3]))[0, :, 0, 0].tolist() == [7, 14, 21]


@pytest.mark.parametrize(("known", "number"), [(4, 2), (5, 2), (9, 3), (10, 4), (50, 20), (80, 32)])
def test_two_fifths_are_usual(known: int, number: int) -> None:
    assert hold_out(_dataset(known, copies=2)).num_novel == number


@pytest.mark.parametrize(("known", "number"), [(4, -1), (4, 1), (4, 3), (4, 10**9), (3, 2), (3, None)])
def test_a_number_that_leaves_too_little(known: int, number: int | None) -> None:
    with pytest.raises(UsageError, match=rf"hold out -?\d+ of {known} known classes"):
        hold_out(_dataset(known), number)


def test_training_sees_no_image_of_a_hidden_class(digits: Dataset) -> None:
    split = digits.split
    shown, hidden, classes = hide_classes(split, 2)
    assert (shown.num_known, shown.num_novel) == (3, None)
    assert set(shown.labels.tolist()) == {0, 1, 2}
    assert classes.tolist() == [c - 3 for c in split.labels.tolist() if c >= 3]
    assert not set(shown.labelled.names) & set(hidden.names)
    assert sorted([*shown.labelled.names, *hidden.names]) == sorted(split.labelled.names)
    assert shown.unlabelled is split.unlabelled
