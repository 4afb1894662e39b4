"""The worked example of docs/adding-a-method.md is a method: its code runs as it is printed there."""

import re
from collections.abc import Iterator
from math import log
from pathlib import Path
from typing import Any

import pytest
import torch

from newfound.core import registry
from newfound.core.records import Batch, Clock, Task
from newfound.data.images import Dataset
from newfound.nn.small import SmallEncoder
from tests.contract import test_methods as contract
from tests.tiny import tiny_recipe, tiny_run

TEXT = (Path(__file__).parents[1] / "docs" / "adding-a-method.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[0]


@pytest.fixture
def balance() -> Iterator[Any]:
    """The class that the page defines, registered while a test lasts."""
    names: dict[str, Any] = {"__name__": "worked_example"}
    exec(compile(CODE, "docs/adding-a-method.md", "exec"), names)
    yield names["Balance"]
    del registry._METHODS["balance"]


def test_it_is_short() -> None:
    assert len([line for line in CODE.splitlines() if line.strip()]) < 60


def test_its_loss_is_its_definition(balance: Any) -> None:
    torch.manual_seed(0)
    method, clock = balance(SmallEncoder(), Task(2, 3), balance.Config(weight=0.5)), Clock(torch.zeros(()), 1)
    batch = Batch((torch.rand(1, 6, 3, 8, 8),), torch.tensor([1, 0]), torch.arange(6))
    out = method(batch, clock)
    p = out["novel"][2:].softmax(-1).double().tolist()
    mean = [sum(row[c] for row in p) / 4 for c in range(3)]
    each = -sum(value * log(value) for row in p for value in row) / 4
    overall = -sum(value * log(value) for value in mean)
    assert method.loss(out, batch, clock)["mi"].item() == pytest.approx(0.5 * (each - overall), rel=1e-4)


@pytest.mark.usefixtures("balance")
def test_it_keeps_the_contract(digits: Dataset, tmp_path: Path) -> None:
    contract.test_loss_is_finite_and_every_trainable_parameter_gets_a_gradient("balance", digits)
    contract.test_scores_cover_all_classes_for_every_head("balance", digits)
    contract.test_same_seed_same_bits_and_hidden_labels_change_none("balance", digits, tmp_path)
    run = tiny_run(tmp_path / "run", tiny_recipe("balance"), digits)
    assert run.discover(tmp_path / "cache").task == digits.split.task
