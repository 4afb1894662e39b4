"""The step that is measured is the one that a run calls, and its modes are compared by what it does."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from newfound.bench.machine import Machine
from newfound.bench.noise import benchmark_shape, noise_split
from newfound.bench.scale import SMALL
from newfound.bench.step import (
    SPLIT_STEPS,
    TOLERANCE,
    _pairs,
    _parts,
    first_losses,
    largest_difference,
    ready_step,
    reference_losses,
)
from newfound.core.registry import recipe_for
from newfound.data.images import Dataset
from newfound.engine.files import read_json
from newfound.engine.step import set_learning_rate
from tests.engine.test_step import stepping
from tests.tiny import CPU

RECORDS = sorted((Path(__file__).parents[2] / "results" / "bench").glob("*.json"))


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


def _modes(path: Path) -> dict[str, Any]:
    modes: dict[str, Any] = read_json(path, (), "").get("step", {}).get("modes", {})
    return modes


@pytest.mark.parametrize("path", [p for p in RECORDS if len(_modes(p)) > 1], ids=lambda path: path.stem)
def test_recorded_modes_agree(path: Path) -> None:
    difference = largest_difference([each["first_losses"] for each in _modes(path).values()])
    assert difference == read_json(path, (), "")["step"]["largest_loss_difference"]
    assert 0 < difference < TOLERANCE
