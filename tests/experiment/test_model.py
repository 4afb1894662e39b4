"""Learners built from settings, and the weights they start from."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from newfound.core.errors import CheckpointError, UsageError
from newfound.data.assemble import own_look
from newfound.data.images import Dataset
from newfound.engine.checkpoint import Checkpoint
from newfound.experiment.finish import finish
from newfound.experiment.model import build_method, build_stage, encoder_name, load_pretrained
from newfound.experiment.pretrained import key_of
from newfound.experiment.run import Stopped
from newfound.nn.resnet import ResNet
from newfound.nn.small import SmallEncoder
from tests.tiny import CPU, tiny_recipe, tiny_run


def test_weights_depend_on_the_seed_alone(digits: Dataset) -> None:
    task, look = digits.split.task, digits.split.look
    torch.manual_seed(1)
    first = build_method(tiny_recipe("iic"), task, look, CPU).state_dict()
    torch.manual_seed(2)
    second = build_method(tiny_recipe("iic", alpha=0, epochs=7), task, look, CPU).state_dict()
    other = build_method(tiny_recipe("iic", seed=1), task, look, CPU).state_dict()
    assert all(torch.equal(value, second[key]) for key, value in first.items())
    assert not torch.equal(first["h.prototypes"], other["h.prototypes"])


def test_a_stage_and_a_method_begin_differently(digits: Dataset) -> None:
    task, look = digits.split.task, digits.split.look
    stage, again = (build_stage("pretrain", tiny_recipe("iic"), task, look, CPU) for _ in range(2))
    method = build_method(tiny_recipe("iic"), task, look, CPU)
    assert set(stage.state_dict()) <= set(method.state_dict())
    assert torch.equal(stage.get_parameter("h.prototypes"), again.get_parameter("h.prototypes"))
    assert not torch.equal(stage.get_parameter("h.prototypes"), method.get_parameter("h.prototypes"))


def test_auto_chooses_the_encoder_by_the_images_and_a_name_wins(digits: Dataset) -> None:
    task, look = digits.split.task, digits.split.look
    assert isinstance(build_method(tiny_recipe("iic"), task, look, CPU).encoder, SmallEncoder)
    chosen = tiny_recipe("iic", encoder="resnet18-cifar")
    assert isinstance(build_method(chosen, task, look, CPU).encoder, ResNet)
    names = [encoder_name(tiny_recipe("iic"), own_look(side)) for side in (16, 32, 224)]
    assert names == ["small", "resnet18-cifar", "resnet18"]


def test_unknown_encoder_is_one_error(digits: Dataset) -> None:
    with pytest.raises(UsageError, match="unknown encoder 'smal'; did you mean 'small'"):
        build_method(tiny_recipe("iic", encoder="smal"), digits.split.task, digits.split.look, CPU)


def official_weights(digits: Dataset) -> dict[str, Tensor]:
    """A pretrain checkpoint as UNO's code writes it; its prototypes are not quite of unit length."""
    torch.manual_seed(5)
    encoder = {key: torch.rand(value.shape) for key, value in SmallEncoder().state_dict().items()}
    return {
        **{f"encoder.{key}": value for key, value in encoder.items()},
        "head_lab.prototypes.weight": torch.randn(digits.split.task.num_known, SmallEncoder.dim),
        "head_unlab.prototypes.0.weight": torch.zeros(3, 3),
    }


def test_official_checkpoint_is_what_discovery_starts_from(digits: Dataset, tmp_path: Path) -> None:
    """With no epochs, so that what begins is what is saved; tracked batches are counted in integers."""
    given = official_weights(digits)
    torch.save(given, tmp_path / "pretrain.pth")
    recipe = tiny_recipe("iic", epochs=0, pretrained=str(tmp_path / "pretrain.pth"))
    run = tiny_run(tmp_path / "run", recipe, digits)
    said: list[str] = []
    run.say = said.append
    method = run.discover(tmp_path / "cache")
    own = method.state_dict()
    for key, value in given.items():
        if key.startswith("encoder."):
            assert torch.equal(own[key], value.to(own[key].dtype)), key
    prototypes = given["head_lab.prototypes.weight"]
    torch.testing.assert_close(own["h.prototypes"], prototypes / prototypes.norm(dim=-1, keepdim=True))
    assert not (tmp_path / "cache").exists()
    assert said == [
        f"pretrained: {len(given) - 1} tensors from {tmp_path / 'pretrain.pth'}; "
        "left out: head_unlab.prototypes.0.weight",
        "pretrained: not trained, whatever their settings: pretrain",
        "discover: starts from the pretrained encoder and h",
        "discover: no epochs, so nothing is trained",
    ]
    assert run.saved is not None
    assert torch.equal(run.saved.weights["encoder.block.0.weight"], given["encoder.block.0.weight"])


def test_official_checkpoint_of_other_classes_or_layers_is_one_error(digits: Dataset, tmp_path: Path) -> None:
    given = official_weights(digits)
    given["head_lab.prototypes.weight"] = torch.randn(80, SmallEncoder.dim)
    del given["encoder.block.0.weight"]
    torch.save(
        {"state_dict": {f"model.{key}": value for key, value in given.items()}}, tmp_path / "pretrain.cp"
    )
    run = tiny_run(tmp_path / "run", tiny_recipe("iic", pretrained=str(tmp_path / "pretrain.cp")), digits)
    with pytest.raises(CheckpointError) as caught:
        run.discover(tmp_path / "cache")
    assert "missing: encoder.block.0.weight;" in str(caught.value)
    D = SmallEncoder.dim
    assert f"h.prototypes (80, {D}) (need (5, {D}))" in str(caught.value)


def test_our_own_pretrained_file_gives_the_same_as_the_cache(digits: Dataset, tmp_path: Path) -> None:
    first = tiny_run(tmp_path / "first", tiny_recipe("iic", epochs=1), digits)
    expected = first.discover(tmp_path / "cache").state_dict()
    (kept,) = (tmp_path / "cache").iterdir()
    weights, unused = load_pretrained(kept)
    assert unused == []
    assert all(torch.equal(value, weights[key]) for key, value in Checkpoint.load(kept).weights.items())
    second = tiny_run(tmp_path / "second", tiny_recipe("iic", epochs=1, pretrained=str(kept)), digits)
    result = second.discover(tmp_path / "unused").state_dict()
    assert all(torch.equal(value, result[key]) for key, value in expected.items())


def test_crops_can_be_encoded_one_after_the_other(digits: Dataset) -> None:
    """As the published codes do it: BatchNorm sees one crop, and its statistics move once for each."""
    task, look = digits.split.task, digits.split.look
    method = build_method(tiny_recipe("iic", norm_over="crop"), task, look, CPU)
    together = build_method(tiny_recipe("iic"), task, look, CPU)
    alone, large, small = deepcopy(method.encoder), torch.rand(2, 6, 3, 8, 8), torch.rand(1, 6, 3, 6, 6)
    features = method.encode((large, small))
    assert torch.equal(features, torch.stack([alone(crop) for crop in (*large, *small)]))
    for key, value in alone.state_dict().items():
        assert torch.equal(value, method.encoder.state_dict()[key])
    assert not torch.allclose(features, together.encode((large, small)))


def test_of_a_chain_the_last_stage_that_is_there_suffices(digits: Dataset, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = tiny_run(tmp_path / "first", tiny_recipe("rs"), digits).pretrain(cache)
    (rotnet,) = cache.glob("rotnet-*")
    rotnet.unlink()
    second = tiny_run(tmp_path / "second", tiny_recipe("rs"), digits)
    weights = second.pretrain(cache)
    assert not second.account.timing
    assert not rotnet.exists()
    assert all(torch.equal(weights[key], value) for key, value in first.items())


@pytest.mark.parametrize("name", ["none.safetensors", "none.pth"])
def test_missing_pretrained_file_is_one_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match=r"a checkpoint must be at .*found none; check the path"):
        load_pretrained(tmp_path / name)


def test_weights_for_another_number_of_classes_are_not_reused(digits: Dataset) -> None:
    """DTC's clusters are prepared before discovery, so they depend on how many there are to be."""
    recipe, keys = tiny_recipe("dtc"), []
    for number in (3, 5):
        split = replace(digits.split, task=replace(digits.split.task, num_novel=number))
        stage = build_stage("centres", recipe, split.task, split.look, CPU)
        keys.append(key_of("centres", stage, "", recipe, split, CPU, torch.float32))
    assert keys[0] != keys[1]


def test_a_run_records_how_the_weights_that_it_reuses_were_trained(digits: Dataset, tmp_path: Path) -> None:
    """And of the stage that it trains itself, that alone: `known` comes after RotNet."""
    cache = tmp_path / "cache"
    first = tiny_run(tmp_path / "first", tiny_recipe("rs"), digits)
    first.pretrain(cache)
    assert not first.account.reused
    assert set(first.account.timing) == {"rotnet", "known"}
    shorter = tiny_recipe("rs", **{"known.epochs": 0})
    second = tiny_run(tmp_path / "second", shorter, digits)
    results, _ = finish(second, second.discover(cache))
    assert set(results["timing"]) == {"discover"}
    (rotnet,) = results["reused"].values()
    assert rotnet["seconds"] == first.account.timing["rotnet"]["seconds"]
    assert rotnet["mode"] == "eager"
    assert rotnet["hardware"] == results["hardware"]
    third = tiny_run(tmp_path / "third", tiny_recipe("rs"), digits)
    third.pretrain(cache)
    assert set(third.account.reused) == {"rotnet", "known"}


def test_a_stage_that_another_run_finished_meanwhile_is_that_runs(digits: Dataset, tmp_path: Path) -> None:
    recipe, cache = tiny_recipe("iic", **{"pretrain.epochs": 3}), tmp_path / "cache"
    first = tiny_run(tmp_path / "first", recipe, digits)
    first.should_stop = lambda: True
    with pytest.raises(Stopped):
        first.pretrain(cache)
    assert set(first.account.timing) == {"pretrain"}
    second = tiny_run(tmp_path / "second", recipe, digits)
    second.pretrain(cache)
    resumed = tiny_run(tmp_path / "first", recipe, digits, resume=True)
    resumed.pretrain(cache)
    assert not resumed.account.timing
    assert not resumed.account.modes
    assert not resumed.account.sessions
    assert resumed.account.reused["pretrain"]["seconds"] == second.account.timing["pretrain"]["seconds"]
