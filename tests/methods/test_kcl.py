"""KCL and MCL against their objectives as loops, what they believe of pairs, and their published values."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from newfound.core.errors import CheckpointError
from newfound.core.learner import NoSettings
from newfound.core.records import Batch, Clock, Task
from newfound.core.registry import recipe_for
from newfound.data.benchmarks import load_benchmark
from newfound.methods.kcl import PairClustering, pairwise_kl_hinge
from newfound.nn.encoders.small import SmallEncoder
from newfound.stages.similarity import Similarity
from newfound.stages.supervised import Known
from tests.tiny import accuracy, tiny_run

TASK = Task(3, 2)
CLOCK = Clock(torch.zeros(()))
M = 6


def method(**settings: Any) -> PairClustering:
    torch.manual_seed(0)
    return PairClustering(SmallEncoder(), TASK, PairClustering.Config(**settings)).train()


def batch() -> Batch:
    torch.manual_seed(1)
    return Batch((torch.rand(1, M, 3, 8, 8),), torch.zeros(0, dtype=torch.int64), torch.arange(M))


@pytest.mark.parametrize("pair_loss", ["kl-hinge", "likelihood"])
def test_the_objective_is_its_definition(pair_loss: str) -> None:
    learner, images = method(pair_loss=pair_loss), batch()
    out = learner(images, CLOCK)
    out["novel"] = 4 * out["novel"]
    same = out["same"] = torch.rand(M, M) < 0.5
    (loss,) = learner.loss(out, images, CLOCK).values()
    p = out["novel"].double().softmax(-1).tolist()
    expected = 0.0
    for i in range(M):
        for j in range(M):
            if pair_loss == "likelihood":
                alike = sum(a * b for a, b in zip(p[i], p[j], strict=True))
                expected -= math.log((alike if same[i, j] else 1 - alike) + 1e-7)
            else:
                kl = sum(
                    (b + 1e-7) * math.log((b + 1e-7) / (a + 1e-7)) for a, b in zip(p[i], p[j], strict=True)
                )
                expected += kl if same[i, j] else max(0.0, 2 - kl)
    assert loss.item() == pytest.approx(expected / M**2, rel=1e-4)


def test_a_pair_is_what_the_similarity_network_finds_likelier() -> None:
    learner, images = method(), batch()
    logits = learner.similarity(learner.similarity.features(learner.known.encoder.trunk(images.views[0][0])))
    assert torch.equal(learner(images, CLOCK)["same"], logits.argmax(-1) == 1)


def test_a_tie_is_no_pair() -> None:
    learner = method()
    for parameter in learner.similarity.parameters():
        torch.nn.init.zeros_(parameter)
    assert not learner(batch(), CLOCK)["same"].any()


def test_the_similarity_network_follows_the_new_images_without_being_trained() -> None:
    learner, images = method(), batch()
    before = {key: value.clone() for key, value in learner.state_dict().items()}
    optimiser = torch.optim.SGD(learner.parameters(), 0.1)
    (loss,) = learner.loss(learner(images, CLOCK), images, CLOCK).values()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    changed = {key for key, value in learner.state_dict().items() if not torch.equal(value, before[key])}
    assert {key.split(".")[0] for key in changed} == {"encoder", "g", "similarity"}
    moved = {key.rpartition(".")[2] for key in changed if key.startswith("similarity.")}
    assert moved == {"running_mean", "running_var", "num_batches_tracked"}


def test_it_takes_over_the_classifier_twice_and_the_similarity_network() -> None:
    torch.manual_seed(5)
    stage = Similarity(SmallEncoder(), TASK, NoSettings())
    stage.adopt(Known(SmallEncoder(), TASK, NoSettings()).state_dict())
    learner = method()
    learner.adopt(stage.state_dict())
    own = learner.state_dict()
    for key, value in stage.state_dict().items():
        if not key.startswith("h."):
            assert torch.equal(own[key], value)
        if not key.startswith("similarity."):
            assert torch.equal(own[f"known.{key}"], value)


def test_weights_without_a_similarity_network_are_refused() -> None:
    weights = Known(SmallEncoder(), TASK, NoSettings()).state_dict()
    with pytest.raises(CheckpointError, match="not from the stage 'similarity'"):
        method().adopt(weights)


def test_scores_are_log_probabilities_of_both_parts() -> None:
    learner, images = method().eval(), torch.rand(4, 3, 8, 8)
    scores, novel = learner.both_scores(images)
    torch.testing.assert_close(scores.exp()[0, :, :3], learner.known(images).softmax(-1))
    torch.testing.assert_close(scores.exp()[..., 3:], novel.softmax(-1))
    assert torch.equal(novel[0], learner.g(learner.encoder(images)))


ALL = {
    "batch_size": 100,
    "optimiser": "adam",
    "lr": 1e-3,
    "lr_falls": "0.6667",
    "weight_decay": 0,
    "trains": "last-block",
    "margin": 2,
    "similarity.epochs": 50,
    "similarity.batch_size": 100,
    "similarity.optimiser": "adam",
    "similarity.lr": 1e-3,
    "similarity.lr_falls": "0.6,0.8",
    "similarity.weight_decay": 0,
}
CIFAR = {"encoder": "rs-resnet18", "rotnet.epochs": 200, "known.epochs": 100, "epochs": 200}
IMAGENET = {"rotnet.epochs": 0, "known.epochs": 90, "epochs": 90}


@pytest.mark.parametrize(("name", "pair_loss"), [("kcl", "kl-hinge"), ("mcl", "likelihood")])
@pytest.mark.parametrize(
    ("benchmark", "classes", "values"),
    [("cifar10", 5, CIFAR), ("cifar100-20", 20, CIFAR), ("imagenet-30-c", 20, IMAGENET)],
)
def test_published_values(
    name: str, pair_loss: str, benchmark: str, classes: int, values: dict[str, Any]
) -> None:
    wanted = ALL | values | {"pair_loss": pair_loss, "similarity.classes_per_batch": classes}
    flat = recipe_for(name, benchmark).flat()
    assert {key: flat[key] for key in wanted} == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kcl", "mcl"])
def test_they_find_digits(name: str, tmp_path: Path) -> None:
    short = {"rotnet.epochs": 0, "known.epochs": 10, "known.trains": "all", "similarity.epochs": 3}
    recipe = recipe_for(name, "digits", short | {"epochs": 10, "evaluate_every": 10, "device": "cpu"})
    run = tiny_run(tmp_path / "run", recipe, load_benchmark("digits"))
    assert accuracy(run.discover()) > 0.35


@pytest.mark.parametrize(("M", "C"), [(6, 4), (1, 3), (3, 1)])
def test_kl_hinge_and_its_gradient_are_those_of_the_definition(M: int, C: int) -> None:
    """Each ordered pair: the divergence of i from j, or its hinge; only i is moved."""
    torch.manual_seed(0)
    logits = (3 * torch.randn(M, C)).requires_grad_()
    exact = logits.detach().double().requires_grad_()
    same = torch.rand(M, M) < 0.5
    loss, p = pairwise_kl_hinge(logits.softmax(-1), same, margin=2.0), exact.softmax(-1)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(M):
        for j in range(M):
            target = p[j].detach() + 1e-7
            kl = (target * (target.log() - (p[i] + 1e-7).log())).sum()
            total = total + (kl if same[i, j] else (2 - kl).clamp(min=0))
    torch.testing.assert_close(loss.double(), total / M**2, rtol=1e-5, atol=1e-6)
    (found,), (wanted,) = (
        torch.autograd.grad(value, leaf) for value, leaf in ((loss, logits), (total / M**2, exact))
    )
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-6)


def test_kl_hinge_is_content_beyond_its_margin() -> None:
    sure = torch.eye(2)
    labels = torch.eye(2, dtype=torch.bool)
    assert pairwise_kl_hinge(sure, labels, margin=2.0).item() == pytest.approx(0, abs=1e-6)
    assert pairwise_kl_hinge(sure, ~labels, margin=2.0).item() == pytest.approx((-math.log(1e-7) + 2) / 2)
