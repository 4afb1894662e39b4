"""DTC against its objective as loops, its memory of the past, its targets and its published values."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from newfound.core.errors import CheckpointError
from newfound.core.learner import NoSettings
from newfound.core.records import Batch, Clock, Task, Views
from newfound.core.registry import recipe_for
from newfound.data.benchmarks import load_benchmark
from newfound.methods.dtc import DTC
from newfound.nn.encoders.small import SmallEncoder
from newfound.stages.centres import Centres, target_distribution
from newfound.stages.supervised import Known
from tests.tiny import accuracy, tiny_run

n, K = 9, 3
TASK = Task(2, K, num_unlabelled=n)


class Pile:
    """A bank with the unlabelled images alone."""

    def __init__(self) -> None:
        torch.manual_seed(2)
        self.labels, self.images = torch.zeros(0), torch.rand(n, 3, 8, 8)

    def labelled(self, function: Callable[[Tensor], Tensor], rows: Tensor | None = None) -> Tensor:
        raise AssertionError("DTC is trained without labels")

    @torch.no_grad()
    def unlabelled(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        return function(self.images)


def dtc(**settings: Any) -> DTC:
    torch.manual_seed(0)
    method = DTC(SmallEncoder(), TASK, DTC.Config(**settings))
    method.targets.copy_(target_distribution(torch.randn(n, K).softmax(-1)))
    return method.eval()


def batch(views: int, seed: int = 1) -> Batch:
    torch.manual_seed(seed)
    images = torch.rand(views, 4, 3, 8, 8)
    return Batch((images,), torch.zeros(0, dtype=torch.int64), torch.tensor([7, 0, 3, 8]))


def at(epoch: int) -> Clock:
    return Clock(torch.tensor(float(epoch)))


def assigned(method: DTC, images: Tensor) -> list[list[float]]:
    """q of each image, one centre after the other."""
    rows, centres = [], method.clusters.centres.tolist()
    for z in method.clusters.embed(method.encoder(images)).double().tolist():
        weights = [1 / (1 + sum((a - b) ** 2 for a, b in zip(z, c, strict=True))) for c in centres]
        rows.append([weight / sum(weights) for weight in weights])
    return rows


def mean_kl(p: list[list[float]], q: list[list[float]]) -> float:
    terms = [a * math.log(a / b) for ps, qs in zip(p, q, strict=True) for a, b in zip(ps, qs, strict=True)]
    return sum(terms) / len(terms)


def mean_square(p: list[list[float]], q: list[list[float]]) -> float:
    terms = [(a - b) ** 2 for ps, qs in zip(p, q, strict=True) for a, b in zip(ps, qs, strict=True)]
    return sum(terms) / len(terms)


@pytest.mark.parametrize("variant", ["baseline", "pi", "te", "tep"])
def test_the_objective_is_its_definition(variant: str) -> None:
    method = dtc(variant=variant)
    images, clock = batch(method.views.large), at(2)
    past = torch.randn(4, K).softmax(-1)
    method.past[images.index] = 0.784 * past  # as after three epochs
    losses = {name: value.item() for name, value in method.loss(method(images, clock), images, clock).items()}
    q = assigned(method, images.views[0][0])
    assert losses.pop("kl") == pytest.approx(mean_kl(method.targets[images.index].tolist(), q), rel=1e-4)
    w = 10 * math.exp(-5 * (1 - 2 / 5) ** 2)
    if variant == "pi":
        other = assigned(method, images.views[0][1])
        assert losses.pop("consistency") == pytest.approx(w * mean_square(q, other), rel=1e-3)
    if variant == "te":
        assert losses.pop("consistency") == pytest.approx(w * mean_square(q, past.tolist()), rel=1e-3)
    assert not losses


@pytest.mark.parametrize("variant", ["baseline", "pi", "te", "tep"])
def test_only_pi_compares_two_views(variant: str) -> None:
    assert dtc(variant=variant).views == Views(2 if variant == "pi" else 1)


def test_te_remembers_each_images_past_corrected_for_its_beginning() -> None:
    method = dtc(variant="te")
    Z = [[0.0] * K for _ in range(4)]
    for epoch in range(4):
        images, clock = batch(1, seed=epoch), at(epoch)
        out = method(images, clock)
        q = assigned(method, images.views[0][0])
        expected = [[z / (1 - 0.6**epoch) for z in row] for row in Z] if epoch else q
        for row, wanted in zip(out["past"].tolist(), expected, strict=True):
            assert row == pytest.approx(wanted, rel=1e-4)
        Z = [[0.6 * z + 0.4 * a for z, a in zip(*rows, strict=True)] for rows in zip(Z, q, strict=True)]
    unseen = torch.ones(n, dtype=torch.bool)
    unseen[images.index] = False
    assert not method.past[unseen].any()
    assert not out["past"].requires_grad


def test_targets_are_refreshed_after_the_first_epoch_and_every_few() -> None:
    method, pile = dtc(refresh=5), Pile()
    fresh = target_distribution(torch.tensor(assigned(method, pile.images)))
    for epoch in range(12):
        method.targets.zero_()
        method.after_epoch(pile, at(epoch))
        if epoch in (0, 5, 10):
            torch.testing.assert_close(method.targets, fresh, rtol=1e-4, atol=1e-5)
        else:
            assert not method.targets.any()
    method.begin(pile)
    torch.testing.assert_close(method.targets, fresh, rtol=1e-4, atol=1e-5)


def test_tep_takes_its_targets_from_the_past_of_every_epoch() -> None:
    method, pile = dtc(variant="tep", refresh=2), Pile()
    Z = torch.zeros(n, K)
    for epoch in range(3):
        with torch.no_grad():
            method.clusters.centres.add_(1)
        Z = 0.6 * Z + 0.4 * torch.tensor(assigned(method, pile.images))
        method.after_epoch(pile, at(epoch))
    torch.testing.assert_close(method.targets, target_distribution(Z / (1 - 0.6**3)), rtol=1e-4, atol=1e-5)


def test_it_goes_on_from_the_warm_up_and_keeps_the_first_classifier() -> None:
    torch.manual_seed(5)
    supervised = Known(SmallEncoder(), TASK, NoSettings()).state_dict()
    stage = Centres(SmallEncoder(), TASK, NoSettings())
    stage.adopt(supervised)
    with torch.no_grad():
        next(stage.encoder.last_block.parameters()).mul_(2)
    method = dtc()
    method.adopt(stage.state_dict())
    assert torch.equal(method.clusters.centres, stage.clusters.centres)
    assert torch.equal(
        method.known.encoder.state_dict()["block.0.weight"], supervised["encoder.block.0.weight"]
    )
    assert torch.equal(
        method.encoder.state_dict()["block.0.weight"], 2 * supervised["encoder.block.0.weight"]
    )


def test_weights_without_centres_are_refused() -> None:
    weights = Known(SmallEncoder(), TASK, NoSettings()).state_dict()
    with pytest.raises(CheckpointError, match=r"no clusters.* stage 'centres'"):
        dtc().adopt(weights)


def test_scores_are_log_probabilities_of_both_parts() -> None:
    method, images = dtc(), torch.rand(4, 3, 8, 8)
    scores = method.scores(images)
    torch.testing.assert_close(scores.exp()[0, :, :2], method.known(images).softmax(-1))
    torch.testing.assert_close(scores[0, :, 2:].exp(), torch.tensor(assigned(method, images)))
    assert torch.equal(method.both_scores(images)[1], scores[..., 2:])


ALL = {
    "batch_size": 128,
    "momentum": 0.9,
    "lr": 0.05,
    "rampup": 5,
    "memory": 0.6,
    "trains": "all",
    "augmentation": "twice-reflect",
    "centres.lr": 0.1,
    "centres.lr_factor": 1,
    "centres.momentum": 0.9,
    "centres.batch_size": 128,
    "centres.trains": "all",
}
RS_STAGES = {"encoder": "rs-resnet18", "rotnet.epochs": 200, "known.epochs": 100}
CIFAR10 = {
    "variant": "pi",
    "consistency": 10,
    "refresh": 5,
    "epochs": 100,
    "lr_factor": 1,
    "weight_decay": 1e-4,
    "centres.epochs": 10,
    "centres.weight_decay": 1e-4,
}
CIFAR100 = {
    "variant": "te",
    "consistency": 10,
    "refresh": 10,
    "epochs": 100,
    "lr_falls": "0.2,0.4,0.6,0.8",
    "lr_factor": 0.5,
    "weight_decay": 1e-5,
    "centres.epochs": 30,
    "centres.weight_decay": 1e-5,
}
IMAGENET = {
    "variant": "tep",
    "consistency": 100,
    "refresh": 5,
    "epochs": 60,
    "lr_factor": 1,
    "weight_decay": 1e-5,
    "augmentation": "none",
    "centres.augmentation": "none",
    "centres.epochs": 10,
    "rotnet.epochs": 0,
    "known.epochs": 90,
}


@pytest.mark.parametrize(
    ("benchmark", "published"),
    [
        ("cifar10", ALL | RS_STAGES | CIFAR10),
        ("cifar100-20", ALL | RS_STAGES | CIFAR100),
        ("cifar100-50", ALL | RS_STAGES | CIFAR100),
        ("imagenet-30-b", ALL | IMAGENET),
    ],
)
def test_published_values(benchmark: str, published: dict[str, Any]) -> None:
    flat = recipe_for("dtc", benchmark).flat()
    assert {key: flat[key] for key in published} == published


@pytest.mark.slow
def test_it_finds_digits(tmp_path: Path) -> None:
    short = {"rotnet.epochs": 0, "known.epochs": 10, "known.trains": "all", "epochs": 10, "device": "cpu"}
    digits = load_benchmark("digits")
    run = tiny_run(tmp_path / "run", recipe_for("dtc", "digits", short | {"evaluate_every": 10}), digits)
    assert accuracy(run.discover()) > 0.5
