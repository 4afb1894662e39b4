"""Hidden classes: what training sees of the others, and nothing of these."""

import torch

from newfound.data.images import Dataset
from newfound.estimate.probe import SomeImages, hide_classes


def test_training_sees_no_image_of_a_hidden_class(digits: Dataset) -> None:
    split = digits.split
    shown, hidden, classes = hide_classes(split, 2)
    assert shown.task.num_known == 3
    assert set(shown.labels.tolist()) == {0, 1, 2}
    assert classes.tolist() == [c - 3 for c in split.labels.tolist() if c >= 3]
    assert not set(shown.labelled.names) & set(hidden.names)
    assert sorted([*shown.labelled.names, *hidden.names]) == sorted(split.labelled.names)
    assert shown.unlabelled is split.unlabelled


def test_the_true_number_of_novel_classes_is_left_behind(digits: Dataset) -> None:
    assert digits.split.task.num_novel == 5
    assert hide_classes(digits.split, 2)[0].task.num_novel == 1


def test_some_images_are_those_of_their_rows(digits: Dataset) -> None:
    whole, rows = digits.split.labelled, torch.tensor([7, 3, 11])
    some = SomeImages(whole, rows)
    assert len(some) == 3
    assert torch.equal(some.take(torch.tensor([2, 0])), whole.take(torch.tensor([11, 7])))
    assert some.names == [whole.names[row] for row in (7, 3, 11)]
    moved = some.to(torch.device("cpu"))
    assert moved.resident
    assert torch.equal(moved.fetch(torch.tensor([2, 0])), whole.take(torch.tensor([11, 7])))
    assert moved.fingerprint() == some.fingerprint() != SomeImages(whole, rows.flip(0)).fingerprint()


def test_rows_of_images_that_are_fetched_stay_on_the_host(digits: Dataset) -> None:
    class Fetched(SomeImages):
        resident = False

        def to(self, device: torch.device, move: bool = True) -> "Fetched":
            return self

    whole = Fetched(digits.split.labelled, torch.arange(20))
    moved = SomeImages(whole, torch.tensor([7, 3])).to(torch.device("meta"))
    assert isinstance(moved, SomeImages)
    assert moved.rows.device.type == "cpu"
    assert torch.equal(moved.fetch(torch.tensor([1])), whole.take(torch.tensor([3])))
