import math

import pytest
import torch

from newfound.core.records import Clock
from newfound.losses.ramp import ramp_up


@pytest.mark.parametrize(("epoch", "epochs"), [(0, 50), (10, 50), (50, 50), (180, 50), (3, 4)])
def test_ramp_is_a_sigmoid_that_ends_at_one(epoch: int, epochs: int) -> None:
    ramp = ramp_up(Clock(torch.tensor(float(epoch))), epochs)
    assert ramp.item() == pytest.approx(math.exp(-5 * (1 - min(epoch, epochs) / epochs) ** 2))


def test_no_ramp_is_the_full_weight_at_once() -> None:
    assert ramp_up(Clock(torch.tensor(0.0)), 0) == 1
