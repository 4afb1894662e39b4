"""Hidden classes: what training sees of the others, and nothing of these."""

from newfound.data.images import Dataset
from newfound.estimate.probe import hide_classes


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
