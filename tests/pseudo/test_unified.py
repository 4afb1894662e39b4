"""UNO's targets against their definition as loops."""

import pytest
import torch

from newfound.core.records import Task, Views
from newfound.pseudo.unified import unified_targets
from tests.methods import definitions
from tests.methods.definitions import SIZES, Sizes, random_case


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("which", ["logits", "over"])
def test_is_the_definition(sizes: Sizes, which: str) -> None:
    """Float32 logits / eps reach 20, so that a target is good to about 1e-5 of itself."""
    single, double, batch = random_case(sizes, seed=0)
    views, task = Views(sizes.large, sizes.small), Task(sizes.C_l, sizes.C_u)
    targets = unified_targets(single.outputs()[which], batch, views, task, 0.05)
    expected = definitions.targets(double.outputs()[which], batch.labels, sizes.C_l, sizes.large, 0.05)
    torch.testing.assert_close(targets.double(), expected, rtol=1e-4, atol=1e-6)


def test_every_target_is_a_distribution_over_its_own_classes_without_gradient() -> None:
    sizes = Sizes(N=4, M=6)
    single, _, batch = random_case(sizes, seed=2)
    targets = unified_targets(single.outputs()["logits"], batch, Views(2, 2), Task(3, 2), 0.05)
    assert targets.shape == (2, 2, 10, 5)
    assert not targets.requires_grad
    torch.testing.assert_close(targets.sum(-1), torch.ones(2, 2, 10))
    assert not targets[:, :, :4, 3:].any()
    assert not targets[:, :, 4:, :3].any()


def test_small_crops_and_labelled_rows_do_not_touch_the_pseudo_labels() -> None:
    sizes = Sizes(N=4, M=6)
    single, _, batch = random_case(sizes, seed=3)
    logits = single.outputs()["logits"].detach()
    other = logits.clone()
    other[2:] = 0.5
    other[:, :, :4] = -0.5
    other[..., :3] = 0.1
    first, second = (unified_targets(x, batch, Views(2, 2), Task(3, 2), 0.05) for x in (logits, other))
    assert torch.equal(first, second)
