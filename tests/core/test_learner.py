"""Learners: encoding several crop sizes, and taking over the weights of the one before."""

import pytest
import torch
from torch import Tensor

from newfound.core.errors import CheckpointError
from newfound.core.records import Losses, Task, Views, total
from newfound.methods.iic import IIC
from newfound.nn.encoders.small import SmallEncoder
from newfound.stages.supervised import Supervised

TASK = Task(3, 2)

D = SmallEncoder.dim


def iic(task: Task = TASK) -> IIC:
    return IIC(SmallEncoder(), task, IIC.Config(heads=2, hidden=8, projection=4))


def pretrained(task: Task = TASK) -> dict[str, Tensor]:
    """The weights of a pretraining stage, unlike any fresh ones."""
    state = Supervised(SmallEncoder(), task, Supervised.Config()).state_dict()
    return {key: torch.full_like(value, 2) + index for index, (key, value) in enumerate(state.items())}


def test_adopts_the_encoder_and_every_shared_head_and_lists_them() -> None:
    method, weights = iic(), pretrained()
    fresh = {key: value.clone() for key, value in method.state_dict().items()}
    used = method.adopt(weights)
    assert used == sorted(weights)
    assert {key.split(".")[0] for key in used} == {"encoder", "h"}
    for key, value in method.state_dict().items():
        assert torch.equal(value, weights[key] if key in weights else fresh[key])


def test_heads_that_it_does_not_have_stay_behind() -> None:
    method = iic()
    weights = pretrained() | {"rotation.weight": torch.ones(4, 4)}
    assert "rotation.weight" not in method.adopt(weights)


def test_an_encoder_alone_is_enough() -> None:
    weights = {key: value for key, value in pretrained().items() if key.startswith("encoder.")}
    assert iic().adopt(weights) == sorted(weights)


def test_one_missing_layer_is_enough_to_refuse() -> None:
    weights = pretrained()
    del weights["encoder.block.0.weight"]
    with pytest.raises(
        CheckpointError, match=r"Missing: encoder.block.0.weight; unexpected: none; wrong shape: none\."
    ):
        iic().adopt(weights)


def test_another_encoder_is_not_taken_in_part() -> None:
    weights = pretrained() | {"encoder.block.9.weight": torch.zeros(1)}
    with pytest.raises(CheckpointError, match=r"Missing: none; unexpected: encoder.block.9.weight;"):
        iic().adopt(weights)


def test_every_missing_and_misfitting_key_is_listed_and_nothing_is_loaded() -> None:
    method, weights = iic(), pretrained(Task(7, 2))
    del weights["encoder.block.0.weight"], weights["encoder.block.1.running_mean"]
    weights["encoder.block.1.bias"] = torch.zeros(5)
    fresh = {key: value.clone() for key, value in method.state_dict().items()}
    with pytest.raises(CheckpointError) as caught:
        method.adopt(weights)
    message = str(caught.value)
    assert "Missing: encoder.block.0.weight, encoder.block.1.running_mean;" in message
    assert f"h.prototypes (7, {D}) instead of (3, {D})." in message
    assert all(torch.equal(value, fresh[key]) for key, value in method.state_dict().items())


def test_encode_is_the_encoder_on_each_crop_in_order() -> None:
    method = iic().eval()
    large, small = torch.rand(2, 4, 3, 8, 8), torch.rand(3, 4, 3, 6, 6)
    features = method.encode((large, small))
    assert features.shape == (5, 4, D)
    for v, crops in enumerate((*large, *small)):
        torch.testing.assert_close(features[v], method.encoder(crops), rtol=1e-4, atol=1e-5)


def test_total_is_the_sum_of_the_means_of_the_terms() -> None:
    losses: Losses = {"ce": torch.tensor([1.0, 3.0]), "over": torch.tensor(5.0), "inter": torch.tensor(-0.5)}
    assert total(losses).item() == 6.5


def test_views_are_counted() -> None:
    assert Views(2, 3).count == 5
    assert TASK.num_classes == 5


def test_many_misfits_are_told_in_short() -> None:
    weights = {key: value[None] for key, value in pretrained().items()}
    with pytest.raises(CheckpointError, match=rf"wrong shape: .* and {len(weights) - 3} more\."):
        iic().adopt(weights)
