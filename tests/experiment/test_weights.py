"""Weights of a general network that the first stage starts from."""

from pathlib import Path

import pytest
import torch

from newfound.core.errors import CheckpointError, UsageError
from newfound.data.images import Dataset
from newfound.experiment.check import check_run
from newfound.experiment.pretrained import digest_of
from newfound.experiment.run import Stopped
from newfound.nn.encoders import build_encoder, encoders_with
from tests.tiny import tiny_recipe, tiny_run


@pytest.fixture
def resnet18(tmp_path: Path) -> Path:
    """A file as torchvision's are."""
    torch.manual_seed(3)
    weights = build_encoder("resnet18").state_dict() | {"fc.weight": torch.zeros(1000, 512)}
    torch.save(weights, tmp_path / "resnet18.pth")
    return tmp_path / "resnet18.pth"


@pytest.mark.parametrize("method", ["iic", "rs"])
def test_the_first_stage_starts_from_them(
    method: str, digits: Dataset, tmp_path: Path, resnet18: Path
) -> None:
    """Stages without an epoch hand them on as they are."""
    still = {f"{stage}.epochs": 0 for stage in tiny_recipe(method).pretraining}
    recipe = tiny_recipe(method, encoder="resnet18", weights=str(resnet18), **still)
    run = tiny_run(tmp_path / "run", recipe, digits)
    said: list[str] = []
    run.say = said.append
    handed_on = run.pretrain(tmp_path / "cache")
    assert said[0] == f"{recipe.pretraining[0]}: starts from the encoder in {resnet18}"
    given = torch.load(resnet18, weights_only=True)
    for key in build_encoder("resnet18").state_dict():
        assert torch.equal(handed_on[f"encoder.{key}"], given[key])


def test_kept_weights_are_those_of_the_same_start(digits: Dataset, tmp_path: Path, resnet18: Path) -> None:
    for number, start in enumerate(("", str(resnet18), str(resnet18))):
        recipe = tiny_recipe("iic", encoder="resnet18", weights=start, **{"pretrain.epochs": 0})
        tiny_run(tmp_path / str(number), recipe, digits).pretrain(tmp_path / "cache")
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_digest_tells_weights_apart() -> None:
    one, other = {"a": torch.tensor([1.0])}, {"a": torch.tensor([2.0])}
    assert digest_of({}) == ""
    assert digest_of(one) == digest_of(dict(one)) != digest_of(other)


def test_weights_of_another_network_name_the_one_they_fit(
    digits: Dataset, tmp_path: Path, resnet18: Path
) -> None:
    recipe = tiny_recipe("iic", encoder="resnet50", weights=str(resnet18))
    with pytest.raises(CheckpointError, match=r"encoder, resnet50; .* fit resnet18; give encoder=resnet18"):
        check_run(recipe, digits.split)
    torch.save({"conv1.weight": torch.zeros(2)}, tmp_path / "odd.pth")
    recipe = tiny_recipe("iic", encoder="resnet50", weights=str(tmp_path / "odd.pth"))
    with pytest.raises(CheckpointError, match="fit none that newfound has; give another file"):
        check_run(recipe, digits.split)


def test_a_start_and_a_checkpoint_instead_of_it_exclude_each_other(digits: Dataset, resnet18: Path) -> None:
    recipe = tiny_recipe("iic", encoder="resnet18", weights=str(resnet18), pretrained="some.safetensors")
    with pytest.raises(UsageError, match="weights must be empty when a pretrained checkpoint is given"):
        check_run(recipe, digits.split)


def test_every_encoder_is_found_by_its_weights() -> None:
    for name in ("small", "resnet18", "resnet18-cifar", "resnet50"):
        assert encoders_with(build_encoder(name).state_dict()) == [name]


def test_another_file_at_the_same_place_is_refused(digits: Dataset, tmp_path: Path, resnet18: Path) -> None:
    """Otherwise a stage that goes on from the old one would be kept for runs that start from the new."""
    recipe = tiny_recipe("iic", encoder="resnet18", weights=str(resnet18), **{"pretrain.epochs": 2})
    run = tiny_run(tmp_path / "run", recipe, digits)
    run.should_stop = lambda: True
    with pytest.raises(Stopped):
        run.pretrain(tmp_path / "cache")
    torch.save(build_encoder("resnet18").state_dict(), resnet18)
    resumed = tiny_run(tmp_path / "run", recipe, digits, resume=True)
    with pytest.raises(CheckpointError, match=r"weights must be those that .* began with; .* has changed"):
        resumed.pretrain(tmp_path / "cache")


def test_a_place_is_kept_as_a_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert tiny_recipe("iic", weights="r18.pth").run.weights == str(tmp_path / "r18.pth")
