import pytest
import torch

from newfound.core.errors import UsageError
from newfound.data.sampler import ClassSampler

LABELS = torch.tensor([0] * 7 + [1] * 2 + [3] * 9)


def test_each_batch_has_as_many_images_of_each_of_a_few_classes() -> None:
    rows = ClassSampler(LABELS, classes=2, size=8)(50, torch.Generator().manual_seed(0))
    assert rows.shape == (50, 8)
    for batch in LABELS[rows]:
        assert sorted(batch.bincount()[batch.unique()].tolist()) == [4, 4]
    assert set(rows.flatten().tolist()) == set(range(len(LABELS)))


def test_the_same_generator_draws_the_same_rows() -> None:
    first, second = (ClassSampler(LABELS, 3, 6)(4, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("classes", [4, 5])
def test_classes_must_exist_and_share_the_batch_evenly(classes: int) -> None:
    with pytest.raises(UsageError, match="classes_per_batch must divide the 8 labelled"):
        ClassSampler(LABELS, classes, 8)
