"""The measured step is the one that a run calls, and its modes compute the same losses."""

from itertools import islice
from pathlib import Path

import pytest
import torch

from benchmarks.measure import Machine
from benchmarks.record import Record
from benchmarks.setup import SMALL, benchmark_shape, noise_split
from benchmarks.step import (
    SPLIT_STEPS,
    TOLERANCE,
    _pairs,
    _parts,
    first_losses,
    largest_difference,
    ready_step,
    reference_losses,
)
from newfound.core.files import read_record
from newfound.core.registry import recipe_for
from newfound.data.dataset import Dataset
from newfound.engine.step import set_learning_rate
from tests.engine.test_step import stepping
from tests.tiny import CPU

pytestmark = pytest.mark.slow

RECORDS = sorted((Path(__file__).parents[2] / "results" / "bench").glob("*-iic-*.json"))


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


def test_losses_without_updates_are_beyond_the_tolerance() -> None:
    small = {"encoder": "small", "batch_size": 16, "heads": 2, "hidden": 64, "projection": 16}
    recipe, split = recipe_for("iic", "digits", small), noise_split(*benchmark_shape("digits"), 80, 80, CPU)
    machine = Machine(CPU, torch.float32, SMALL, 1.0)
    still = ready_step(recipe, split, machine, "eager")
    set_learning_rate(still.optimiser, 0.0)
    losses = [reference_losses(recipe, split, machine, "eager"), first_losses(still, _pairs(still.loader))]
    assert largest_difference(losses) > 10 * TOLERANCE


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_recorded_modes_agree(path: Path) -> None:
    steps = read_record(path, Record).step
    assert steps
    difference = largest_difference([each.first_losses for each in steps.modes.values()])
    assert difference == steps.largest_loss_difference
    assert difference < TOLERANCE
    assert (difference > 0) == (len(steps.modes) > 1)
