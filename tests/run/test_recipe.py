"""Learners built from settings, the weights they start from, and the weights that runs share."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from newfound.core.encoder import Preprocessing
from newfound.core.errors import CheckpointError, UsageError
from newfound.core.registry import ENCODERS, method_names, recipe_for
from newfound.data.dataset import Dataset
from newfound.engine.checkpoint import Checkpoint
from newfound.nn.encoders.resnet import ResNet
from newfound.nn.encoders.small import SmallEncoder
from newfound.run.events import Stopped
from newfound.run.preflight import preflight
from newfound.run.recipe import (
    NETWORK_STAGES,
    build_method,
    build_stage,
    changed_settings,
    probe_recipe,
    split_settings,
    stored_recipe,
)
from newfound.run.trained import Trained
from newfound.run.weights import digest_of, key_of, load_pretrained
from tests.tiny import CPU, stop_in, tiny_recipe, tiny_run, weights_of


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
    stage = build_stage("pretrain", tiny_recipe("iic"), task, look, CPU)
    method = build_method(tiny_recipe("iic"), task, look, CPU)
    assert set(stage.state_dict()) <= set(method.state_dict())
    assert not torch.equal(stage.get_parameter("h.prototypes"), method.get_parameter("h.prototypes"))


def test_auto_chooses_the_encoder_by_the_images_and_a_name_wins(digits: Dataset) -> None:
    task, look = digits.split.task, digits.split.look
    assert isinstance(build_method(tiny_recipe("iic"), task, look, CPU).encoder, SmallEncoder)
    chosen = tiny_recipe("iic", encoder="resnet18-cifar")
    assert isinstance(build_method(chosen, task, look, CPU).encoder, ResNet)
    with pytest.raises(UsageError, match=r"Unknown encoder 'smal'\. Did you mean 'small'"):
        build_method(tiny_recipe("iic", encoder="smal"), task, look, CPU)


def test_crops_can_be_encoded_one_after_the_other(digits: Dataset) -> None:
    """As the published codes do it: BatchNorm sees one crop, and its statistics move once for each."""
    task, look = digits.split.task, digits.split.look
    method = build_method(tiny_recipe("iic", norm_over="crop"), task, look, CPU)
    together = build_method(tiny_recipe("iic"), task, look, CPU)
    alone, large, small = deepcopy(method.encoder), torch.rand(2, 6, 3, 8, 8), torch.rand(1, 6, 3, 6, 6)
    features = method.encode((large, small))
    assert torch.equal(features, torch.stack([alone(crop) for crop in (*large, *small)]))
    assert not torch.allclose(features, together.encode((large, small)))


def official_weights(digits: Dataset) -> dict[str, Tensor]:
    """A pretrain checkpoint as UNO's code writes it; its prototypes are not quite of unit length."""
    torch.manual_seed(5)
    encoder = {key: torch.rand(value.shape) for key, value in SmallEncoder().state_dict().items()}
    return {
        **{f"encoder.{key}": value for key, value in encoder.items()},
        "head_lab.prototypes.weight": torch.randn(digits.num_known, SmallEncoder.dim),
        "head_unlab.prototypes.0.weight": torch.zeros(3, 3),
    }


def test_official_checkpoint_is_what_discovery_starts_from(digits: Dataset, tmp_path: Path) -> None:
    """With no epochs, so that what begins is what is saved; tracked batches are counted in integers."""
    given = official_weights(digits)
    torch.save(given, tmp_path / "pretrain.pth")
    run = tiny_run(
        tmp_path / "run", tiny_recipe("iic", epochs=0, pretrained=str(tmp_path / "pretrain.pth")), digits
    )
    run.discover()
    own = weights_of(run)
    for key, value in given.items():
        if key.startswith("encoder."):
            assert torch.equal(own[key], value.to(own[key].dtype)), key
    prototypes = given["head_lab.prototypes.weight"]
    torch.testing.assert_close(own["h.prototypes"], prototypes / prototypes.norm(dim=-1, keepdim=True))
    assert not run.folder.cache.exists()


def test_official_checkpoint_of_other_classes_or_layers_is_one_error(digits: Dataset, tmp_path: Path) -> None:
    given = official_weights(digits)
    given["head_lab.prototypes.weight"] = torch.randn(80, SmallEncoder.dim)
    del given["encoder.block.0.weight"]
    torch.save({"state_dict": {f"model.{key}": v for key, v in given.items()}}, tmp_path / "pretrain.cp")
    recipe = tiny_recipe("iic", pretrained=str(tmp_path / "pretrain.cp"))
    with pytest.raises(CheckpointError, match=r"encoder\.block\.0\.weight.*h\.prototypes"):
        preflight(recipe, digits.split)


@pytest.mark.parametrize("name", ["none.safetensors", "none.pth"])
def test_missing_pretrained_file_is_one_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match=r"No such file or directory\.$"):
        load_pretrained(tmp_path / name)


def test_our_own_pretrained_file_gives_the_same_as_the_cache(digits: Dataset, tmp_path: Path) -> None:
    first = tiny_run(tmp_path / "a" / "first", tiny_recipe("iic", epochs=1), digits)
    first.discover()
    (kept,) = first.folder.cache.iterdir()
    second = tiny_run(tmp_path / "b" / "second", tiny_recipe("iic", epochs=1, pretrained=str(kept)), digits)
    second.discover()
    assert all(torch.equal(value, weights_of(second)[key]) for key, value in weights_of(first).items())


def test_of_a_chain_the_last_cached_stage_suffices(digits: Dataset, tmp_path: Path) -> None:
    first = tiny_run(tmp_path / "first", tiny_recipe("rs"), digits)
    first.pretrain()
    (rotnet,) = first.folder.cache.glob("rotnet-*")
    rotnet.unlink()
    results = tiny_run(tmp_path / "second", tiny_recipe("rs"), digits).discover()
    assert set(results.timing) == {"discover"}
    assert set(results.reused) == {"rotnet", "known"}
    assert not rotnet.exists()


def test_until_ends_after_a_stage(digits: Dataset, tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", tiny_recipe("rs"), digits)
    run.pretrain(until="rotnet")
    assert [path.name.split("-")[0] for path in run.folder.cache.iterdir()] == ["rotnet"]


def test_weights_for_another_number_of_classes_are_not_reused(digits: Dataset) -> None:
    """DTC's clusters are prepared before discovery, so they depend on how many there are to be."""
    recipe, keys = tiny_recipe("dtc"), []
    for number in (3, 5):
        split = replace(digits.split, num_novel=number)
        stage = build_stage("centres", recipe, split.task, split.look, CPU)
        keys.append(key_of("centres", stage, "", recipe, split, CPU, torch.float32))
    assert keys[0] != keys[1]


class Pretrained(SmallEncoder):
    """A small encoder that comes with weights, as long as they are there."""

    preprocessing = Preprocessing(8, (0.5,) * 3, (0.5,) * 3)
    revision = "first"
    level: ClassVar[float | None] = 0.5

    def load_pretrained(self) -> None:
        if self.level is None:
            raise UsageError("The weights are not installed.")
        nn.init.constant_(next(self.parameters()), self.level)


def test_a_pretrained_encoder_keeps_its_weights_and_a_finished_run_needs_them_no_more(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENCODERS.items, "pretrained", Pretrained)
    recipe = tiny_recipe("kmeans", encoder="pretrained", **{"rotnet.epochs": 0, "known.epochs": 0})
    run = tiny_run(tmp_path / "run", recipe, digits)
    assert run.discover().encoder_revision == "first"
    monkeypatch.setattr(Pretrained, "level", None)
    first = next(Trained.load(run.folder).method.encoder.parameters())
    assert torch.equal(first, torch.full_like(first, 0.5))
    with pytest.raises(UsageError, match="not installed"):
        tiny_run(tmp_path / "other", recipe, digits).check()


def test_stages_that_start_from_other_pretrained_weights_are_not_reused(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENCODERS.items, "pretrained", Pretrained)
    recipe, split, keys = tiny_recipe("iic", encoder="pretrained"), digits.split, set()
    for level in (0.25, 0.5, 0.25):
        monkeypatch.setattr(Pretrained, "level", level)
        stage = build_stage("pretrain", recipe, split.task, split.look, CPU)
        keys.add(key_of("pretrain", stage, "", recipe, split, CPU, torch.float32))
    assert len(keys) == 2


def test_a_stage_that_another_run_finished_meanwhile_is_that_runs(digits: Dataset, tmp_path: Path) -> None:
    recipe = tiny_recipe("iic", **{"pretrain.epochs": 3})
    stop_in("pretrain", tiny_run(tmp_path / "first", recipe, digits))
    second = tiny_run(tmp_path / "second", recipe, digits).discover()
    resumed = tiny_run(tmp_path / "first", recipe, digits, resume=True).discover()
    assert set(resumed.timing) == {"discover"}
    assert resumed.reused["pretrain"].seconds == second.timing["pretrain"].seconds


def test_a_damaged_cache_is_trained_again(digits: Dataset, tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "first", tiny_recipe("iic"), digits)
    run.pretrain()
    (kept,) = run.folder.cache.iterdir()
    whole = {key: value.clone() for key, value in Checkpoint.load(kept).weights.items()}
    kept.write_bytes(b"half")
    tiny_run(tmp_path / "second", tiny_recipe("iic"), digits).pretrain()
    assert all(torch.equal(value, whole[key]) for key, value in Checkpoint.load(kept).weights.items())


class Named(SmallEncoder):
    """A small encoder whose parameters begin as torchvision's do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 3, 1)

    def trunk(self, images: Tensor) -> Tensor:
        return super().trunk(self.conv1(images))


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The encoder `named`, and weights for it in a file as torchvision's are."""
    monkeypatch.setitem(ENCODERS.items, "named", Named)
    torch.manual_seed(3)
    torch.save(Named().state_dict() | {"fc.weight": torch.zeros(1000, 512)}, tmp_path / "named.pth")
    return tmp_path / "named.pth"


@pytest.mark.parametrize("method", ["iic", "rs"])
def test_the_first_stage_starts_from_given_weights(
    method: str, digits: Dataset, tmp_path: Path, named: Path
) -> None:
    """Stages without an epoch hand them on as they are."""
    still = {f"{stage}.epochs": 0 for stage in tiny_recipe(method).pretraining}
    recipe = tiny_recipe(method, encoder="named", weights=str(named), **still)
    run = tiny_run(tmp_path / "run", recipe, digits)
    run.pretrain()
    (kept,) = run.folder.cache.glob(f"{recipe.pretraining[-1]}-*")
    handed_on, given = Checkpoint.load(kept).weights, torch.load(named, weights_only=True)
    for key in Named().state_dict():
        assert torch.equal(handed_on[f"encoder.{key}"], given[key])


def test_weights_that_do_not_fit_name_the_encoder_they_fit(
    digits: Dataset, tmp_path: Path, named: Path
) -> None:
    recipe = tiny_recipe("iic", encoder="resnet50", weights=str(named))
    with pytest.raises(CheckpointError, match=r"do not fit the encoder resnet50\. Use encoder=named"):
        preflight(recipe, digits.split)
    torch.save({"conv1.weight": torch.zeros(2)}, tmp_path / "odd.pth")
    recipe = tiny_recipe("iic", encoder="resnet50", weights=str(tmp_path / "odd.pth"))
    with pytest.raises(CheckpointError, match="fits none of our encoders"):
        preflight(recipe, digits.split)


def test_another_file_at_the_same_place_is_refused(digits: Dataset, tmp_path: Path, named: Path) -> None:
    """Otherwise a stage that goes on from the old one would be cached for runs that start from the new."""
    recipe = tiny_recipe("iic", encoder="named", weights=str(named), **{"pretrain.epochs": 2})
    run = tiny_run(tmp_path / "run", recipe, digits)
    run.should_stop = lambda: True
    with pytest.raises(Stopped):
        run.pretrain()
    torch.save(Named().state_dict(), named)
    with pytest.raises(CheckpointError, match="has changed since the run"):
        tiny_run(tmp_path / "run", recipe, digits, resume=True).pretrain()


def test_a_digest_tells_weights_apart() -> None:
    one, other = {"a": torch.tensor([1.0])}, {"a": torch.tensor([2.0])}
    assert digest_of({}) == ""
    assert digest_of(one) == digest_of(dict(one)) != digest_of(other)


def test_settings_of_a_stored_run_are_complete(digits: Dataset, tmp_path: Path) -> None:
    recipe = recipe_for("rs", "digits", {"top": 3, "track": "matched"})
    run = tiny_run(tmp_path / "run", recipe, digits)
    assert stored_recipe(run.request) == run.recipe


def test_changed_settings_are_those_that_differ_from_the_recipe() -> None:
    recipe = recipe_for("iic", "digits", {"alpha": 0.5, "track": "matched"})
    assert changed_settings(recipe, "digits") == {"alpha": 0.5, "track": "matched"}


def test_settings_of_the_estimate_are_told_apart() -> None:
    assert split_settings({"estimate.max_novel": 3, "alpha": 0}) == ({"max_novel": 3}, {"alpha": 0})


@pytest.mark.parametrize("method", method_names())
def test_every_method_lends_its_network_to_an_estimate(method: str) -> None:
    """Stages that make a classifier; a method without any borrows IIC's; given weights are left out."""
    recipe = recipe_for(method, "digits", {"seed": 4, "pretrained": "some.pth"})
    probe = probe_recipe(recipe, "digits")
    assert probe.pretraining
    assert set(probe.pretraining) <= set(NETWORK_STAGES)
    assert (probe.run.seed, probe.run.pretrained) == (4, "")
