"""Two processes train what one trains: every method and every pretraining stage."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn

import newfound.pseudo.sinkhorn as pseudo
from newfound.core import dist
from newfound.core.encoder import Encoder, pooled
from newfound.core.learner import Learner
from newfound.core.registry import STAGES, method_names
from newfound.data.benchmarks import load_benchmark
from newfound.data.dataset import Dataset
from newfound.engine.evaluate import TrainingBank, Viewer
from newfound.engine.step import Mode
from newfound.engine.trainer import Trainer
from newfound.nn.encoders.small import SmallEncoder
from newfound.nn.norm import MapBatchNorm
from newfound.run.recipe import build_stage, extra_loss, stage_loader
from tests.marks import NEEDS_COMPILER
from tests.tiny import CPU, SUBSET, tiny_recipe

pytestmark = pytest.mark.slow
WITH_STAGE = {"pretrain": "iic", "rotnet": "rs", "known": "rs", "centres": "dtc", "similarity": "kcl"}
"""A method that has each stage."""
CASES: list[tuple[str, str, dict[str, object]]] = [
    *((name, "discover", {}) for name in method_names()),
    *((method, stage, {}) for stage, method in WITH_STAGE.items()),
    ("dtc", "discover", {"variant": "te"}),
    ("ncl", "discover", {"hard_negatives": 5, "hard_from": 0, "memory": 60, "known_memory": 60}),
    ("uno-v2", "discover", {"constraints.alpha": 0.05, "encoder": "maps"}),
    ("iic", "discover", {"norm_over": "crop"}),
    ("gcd", "discover", {"data": "digits-mixed"}),
    ("iic", "discover", {"data": "digits-mixed"}),
    ("simgcd", "discover", {"data": "digits-mixed"}),
    ("uno-v1", "discover", {"data": "digits-mixed"}),
    ("uno-v2", "discover", {"data": "digits-mixed"}),
]
STEPS = 3
"""The fewest steps to train."""


class Maps(Encoder):
    """An encoder of a residual block, which is as wide as `small`."""

    dim = SmallEncoder.dim

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, self.dim, 3), nn.Conv2d(self.dim, self.dim, 1)
        self.norms = nn.ModuleList(MapBatchNorm(self.dim) for _ in range(2))

    def forward(self, images: Tensor) -> Tensor:
        maps = self.norms[0](self.first(images), relu=True)
        return pooled(self.norms[1](self.second(maps), relu=True, plus=maps))


def in_double(encoder: nn.Module, images: tuple[Tensor]) -> Tensor:
    return images[0].double()


def in_float(encoder: nn.Module, images: tuple[Tensor], features: Tensor) -> Tensor:
    return features.float()


@cache
def data_set(name: str) -> Dataset:
    return load_benchmark(name, None, SUBSET)


def trained(name: str, stage: str, settings: dict[str, object], device: torch.device) -> dict[str, Tensor]:
    """The weights after an epoch of batches that two processes cannot share equally.

    Encoders are in float64: otherwise rounding decides on which side of a ReLU some features fall, and Adam
    makes steps of gradients that are zero but for rounding.
    """
    data = data_set(str(settings.get("data", "digits")))
    own = {key: value for key, value in settings.items() if key not in ("data", "encoder")}
    recipe = tiny_recipe(name, **own)
    epochs = min(recipe.train[stage].epochs, 1)
    train = replace(recipe.train[stage], batch_size=39, epochs=epochs, optimiser="sgd")
    recipe, split = replace(recipe, train={stage: train}), data.to(device).split
    torch.manual_seed(0)
    learner: Learner = build_stage(stage, recipe, split.task, split.look, device)
    learner.encoder = Maps().to(device) if "encoder" in settings else learner.encoder
    if not learner.needs_maps:
        learner.encoder.double().register_forward_pre_hook(in_double)
        learner.encoder.register_forward_hook(in_float)
    loader = stage_loader(stage, learner, recipe, split, device)
    assert loader.steps >= STEPS
    bank = TrainingBank(Viewer(learner, split.look, device, torch.float32), split)
    extra = extra_loss(recipe.constraints, split.task) if stage == "discover" else None
    mode: Mode = "compiled" if recipe.run.mode == "compiled" else "eager"
    trainer = Trainer(learner, loader, train, bank, mode=mode, extra=extra)
    for _ in trainer.run():
        pass
    assert trainer.step.mode == mode
    return {key: value.double() for key, value in learner.state_dict().items()}


def record(function: Callable[..., Tensor], found: list[Tensor], patches: ExitStack) -> None:
    """Keep what a function returns to whoever uses it."""

    def recorded(*arguments: object) -> Tensor:
        found.append(function(*arguments))
        return found[-1]

    name = function.__name__
    for user in [each for each in list(sys.modules.values()) if vars(each).get(name) is function]:
        patches.enter_context(patch.object(user, name, recorded))


def differences(
    name: str, stage: str, settings: dict[str, object], device: torch.device = CPU
) -> tuple[float, float | None]:
    """The largest between two processes and one: of the weights, and of Sinkhorn's targets, if any."""
    targets: list[Tensor] = []
    assert dist.world() == 2
    with ExitStack() as patches:
        for function in (pseudo.sinkhorn, pseudo._mixed_targets):
            record(function, targets, patches)
        together = trained(name, stage, settings, device)
        with patch.object(dist, "_orders", None):
            alone = trained(name, stage, settings, device)
    half = len(targets) // 2
    pairs = zip(targets[:half], targets[half:], strict=True)
    of_targets = max(((one - two).abs().max().item() for one, two in pairs), default=None)
    gaps = [(value - together[key]).abs().flatten() for key, value in alone.items()]
    return torch.cat(gaps).max().item(), of_targets


def makes_targets(name: str, stage: str) -> bool:
    """Whether Sinkhorn makes targets in this stage."""
    return stage == "discover" and "sinkhorn_eps" in tiny_recipe(name).flat()


@pytest.fixture(scope="module", autouse=True)
def two_processes() -> Iterator[None]:
    """This one and one that follows it."""
    with dist.processes(2):
        yield


def test_every_stage_is_covered() -> None:
    assert set(WITH_STAGE) == set(STAGES.names())


@pytest.mark.parametrize(("name", "stage", "settings"), CASES)
def test_two_processes_train_what_one_trains(name: str, stage: str, settings: dict[str, object]) -> None:
    weights, targets = differences(name, stage, settings)
    assert weights < 1e-5
    assert (targets is not None) == makes_targets(name, stage)
    assert targets is None or targets < 1e-6


@NEEDS_COMPILER
@pytest.mark.extra
def test_a_compiled_step_is_shared_too() -> None:
    """It takes minutes to compile."""
    weights, _ = differences("simgcd", "discover", {"mode": "compiled"})
    assert weights < 1e-5
