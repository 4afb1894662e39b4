"""Two processes train what one trains: every method and every pretraining stage."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import newfound.pseudo.sinkhorn as pseudo
from newfound.core import dist
from newfound.core.learner import Learner
from newfound.core.registry import STAGES, method_names
from newfound.data.dataset import Dataset
from newfound.engine.evaluate import TrainingBank, Viewer
from newfound.engine.trainer import Trainer
from newfound.run.recipe import build_stage, extra_loss, stage_loader
from tests.tiny import CPU, tiny_recipe

pytestmark = pytest.mark.slow
WITH_STAGE = {"pretrain": "iic", "rotnet": "rs", "known": "rs", "centres": "dtc", "similarity": "kcl"}
"""A method that has each stage."""
CASES = [
    *((name, "discover", {}) for name in method_names()),
    *((method, stage, {}) for stage, method in WITH_STAGE.items()),
    ("dtc", "discover", {"variant": "te"}),
    ("ncl", "discover", {"hard_negatives": 5, "hard_from": 0, "memory": 60, "known_memory": 60}),
    ("uno-v2", "discover", {"constraints.alpha": 0.05, "encoder": "resnet18-cifar"}),
    ("iic", "discover", {"norm_over": "crop"}),
]


@pytest.fixture(scope="module", autouse=True)
def two_processes() -> Iterator[None]:
    """This one and one that follows it."""
    with dist.processes(2):
        yield


def in_double(encoder: nn.Module, images: tuple[Tensor]) -> Tensor:
    return images[0].double()


def in_float(encoder: nn.Module, images: tuple[Tensor], features: Tensor) -> Tensor:
    return features.float()


def trained(name: str, stage: str, settings: dict[str, object], data: Dataset) -> dict[str, Tensor]:
    """The weights after three steps on batches that two processes cannot share equally.

    Encoders are in float64: otherwise rounding decides on which side of a ReLU some features fall, and Adam
    makes steps of gradients that are zero but for rounding.
    """
    recipe = tiny_recipe(name, **settings)
    epochs = min(recipe.train[stage].epochs, 1)
    train = replace(recipe.train[stage], batch_size=79, epochs=epochs, optimiser="sgd")
    recipe, split = replace(recipe, train={stage: train}), data.split
    torch.manual_seed(0)
    learner: Learner = build_stage(stage, recipe, split.task, split.look, CPU)
    if not learner.needs_maps:
        learner.encoder.double().register_forward_pre_hook(in_double)
        learner.encoder.register_forward_hook(in_float)
    loader = stage_loader(stage, learner, recipe, split, CPU)
    bank = TrainingBank(Viewer(learner, split.look, CPU, torch.float32), split)
    extra = extra_loss(recipe.constraints, split.task) if stage == "discover" else None
    for _ in Trainer(learner, loader, train, bank, extra=extra).run():
        pass
    return {key: value.double() for key, value in learner.state_dict().items()}


def test_every_stage_is_covered() -> None:
    assert set(WITH_STAGE) == set(STAGES.names())


@pytest.mark.parametrize(("name", "stage", "settings"), CASES)
def test_two_processes_train_what_one_trains(
    name: str, stage: str, settings: dict[str, object], digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets: list[list[Tensor]] = []
    sinkhorn = pseudo.sinkhorn

    def recorded(*arguments: object) -> Tensor:
        targets[-1].append(sinkhorn(*arguments))  # type: ignore[arg-type]
        return targets[-1][-1]

    monkeypatch.setattr(pseudo, "sinkhorn", recorded)
    assert dist.world() == 2
    targets.append([])
    two = trained(name, stage, settings, digits)
    targets.append([])
    with monkeypatch.context() as alone:
        alone.setattr(dist, "_orders", None)
        one = trained(name, stage, settings, digits)
    assert len(targets[0]) == len(targets[1])
    for shared, own in zip(*targets, strict=True):
        torch.testing.assert_close(shared, own, atol=1e-6, rtol=0)
    worst = {key: (value - two[key]).abs().max().item() for key, value in one.items()}
    assert max(worst.values()) < 1e-5, worst
