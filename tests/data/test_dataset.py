"""Splits and data sets: what they refuse, say about themselves, and become on another device."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from newfound.core.errors import DataError
from newfound.core.records import Task
from newfound.core.source import Source
from newfound.data import images
from newfound.data.dataset import Dataset, Look, Split, Truth, novel_names, rank_in_class
from tests.data.conftest import random_images

LOOK = Look(4, "cifar", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), stored=4)


def toy(labels: tuple[int, ...] = (0, 1, 0, 1), num_novel: int | None = 2, test_seed: int = 2) -> Dataset:
    split = Split(random_images(4), torch.tensor(labels), random_images(3, 1), 2, num_novel, LOOK)
    truth = Truth(torch.tensor([2, 3, 2]), random_images(2, test_seed), torch.tensor([0, 3]))
    return Dataset("toy", split, truth, ("a", "b", "c", "d"))


@pytest.mark.parametrize(
    ("labelled", "unlabelled", "num_novel", "text"),
    [
        (0, 3, 2, "no labelled images"),
        (4, 3, 4, "3 unlabelled images, which cannot be of 4"),
        (4, 0, None, "no unlabelled images"),
    ],
)
def test_an_impossible_split(labelled: int, unlabelled: int, num_novel: int | None, text: str) -> None:
    with pytest.raises(DataError, match=text):
        Split(random_images(labelled), torch.zeros(labelled), random_images(unlabelled), 2, num_novel, LOOK)


def test_the_note() -> None:
    assert toy().note == (
        "toy: 4 labelled images of 2 known classes, 3 unlabelled images of 2 novel classes, 2 test images, "
        "4 x 4 pixels"
    )
    own = replace(toy(), truth=None, class_names=("a", "b"), size_reason="as requested", skipped=("x: bad",))
    assert own.note.endswith("of 2 novel classes, 4 x 4 pixels (as requested), some files left out")
    assert "3 unlabelled images, 4 x 4" in replace(own, split=replace(own.split, num_novel=None)).note
    assert toy().with_num_novel(1).note == f"{toy().note}; looking for 1 novel class"
    held = replace(toy(), source=Source(benchmark="toy", held_out=2, subset=9))
    assert held.note.endswith("4 x 4 pixels, at most 9 per class; held-out known classes: c, d")


def test_another_number_of_novel_classes() -> None:
    own = replace(toy(num_novel=None), truth=None, class_names=("novel-1", "b"), source=Source(labelled="/a"))
    found = own.with_num_novel(3)
    assert (own.num_novel, found.num_novel) == (None, 3)
    assert (own.split.task, found.split.task) == tuple(
        Task(2, number, 3, num_labelled=4) for number in (0, 3)
    )
    assert found.class_names == ("novel-1", "b", "novel-2", "novel-3", "novel-4")
    assert found.source == Source(labelled="/a", num_novel=3)
    assert toy().with_num_novel(3).class_names == ("a", "b", "c", "d")
    with pytest.raises(DataError, match="cannot be of 4 novel"):
        own.with_num_novel(4)
    with pytest.raises(DataError, match="cannot be of 0 novel"):
        own.with_num_novel(0)
    mixed = replace(own, split=replace(own.split, pile="mixed"))
    assert mixed.with_num_novel(0).class_names == ("novel-1", "b")


def test_fingerprints_cover_labels_and_test_images() -> None:
    original = toy().fingerprint()
    assert original == toy().fingerprint()
    for other in (toy(labels=(0, 1, 1, 0)), toy(test_seed=3)):
        assert original != other.fingerprint()
    assert original == toy(num_novel=None).fingerprint()  # which an estimate may change


def test_a_data_set_moves_as_a_whole() -> None:
    moved, first = toy().to(torch.device("meta")), torch.tensor([0], device="meta")
    split, truth = moved.split, moved.truth
    assert truth is not None
    tensors = [split.labels, truth.labels, truth.test_labels]
    tensors += [each.take(first) for each in (split.labelled, split.unlabelled, truth.test)]
    assert all(tensor.device.type == "meta" for tensor in tensors)


def test_both_sets_stay_on_the_host_if_one_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_fits", lambda num_bytes, device: num_bytes < 4 * 3 * 4 * 4)
    moved = toy().split.to(torch.device("meta"))
    assert not moved.labelled.resident
    assert not moved.unlabelled.resident
    assert moved.unlabelled.fetch(torch.tensor([1])).device.type == "cpu"


def test_names_of_novel_classes() -> None:
    assert novel_names(["novel-2", "cat"], 3) == ("novel-1", "novel-3", "novel-4")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=20))
def test_rank_is_the_count_of_earlier_rows_of_the_class(labels: list[int]) -> None:
    expected = [labels[:row].count(label) for row, label in enumerate(labels)]
    assert rank_in_class(np.array(labels, dtype=np.int64)).tolist() == expected
