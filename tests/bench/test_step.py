"""The step that is measured is the one that a run calls."""

from itertools import islice

import torch

from newfound.bench.step import SPLIT_STEPS, _parts
from newfound.data.images import Dataset
from tests.engine.test_step import stepping


def test_the_parts_one_after_the_other_are_the_step(digits: Dataset) -> None:
    trained, step = stepping(digits, lr=0.1)
    reference, whole = stepping(digits, lr=0.1)
    assert list(_parts(step, step.loader.draws(0))) == ["augmentation", "forward", "backward", "optimiser"]
    for draw in islice(whole.loader.draws(0), SPLIT_STEPS):
        whole(draw)
    assert list(step.sums) == list(whole.sums)
    for name, value in whole.sums.items():
        assert torch.equal(step.sums[name], value)
    for name, value in reference.state_dict().items():
        assert torch.equal(trained.state_dict()[name], value), name
