"""SimGCD: every term against its definition as loops, and methods on a mixed pile of vectors."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.records import Batch, Clock, Task
from newfound.core.registry import recipe_for
from newfound.losses.pairs import contrast
from newfound.methods.simgcd import SimGCD, missing_entropy, teacher_temperature
from newfound.nn.encoders.mlp import Identity
from newfound.run.folder import Folder
from newfound.run.run import Run
from tests.methods.mixed import mixed_vectors

V, N, B, D, TASK = 2, 3, 7, 6, Task(2, 3, pile="mixed")


def clock(epoch: float) -> Clock:
    return Clock(torch.tensor(float(epoch)))


def made(**settings: float) -> tuple[SimGCD, Batch]:
    torch.manual_seed(0)
    config = SimGCD.Config(hidden=16, projection=8, **settings)  # type: ignore[arg-type]
    batch = Batch((torch.randn(V, B, D),), torch.tensor([0, 1, 1]), torch.arange(B))
    return SimGCD(Identity(str(D)), TASK, config), batch


def log_softmax(logits: Tensor, tau: float) -> list[float]:
    values = [float(each) / tau for each in logits]
    mass = math.log(sum(math.exp(each - max(values)) for each in values)) + max(values)
    return [each - mass for each in values]


def test_the_terms_by_loops() -> None:
    method, batch = made(entropy=1.5)
    out = method(batch, clock(0))
    logits, z = out["logits"].detach().double(), batch.views[0]
    prototypes = method.prototypes.weight
    for v in range(V):
        for i in range(B):
            for c in range(TASK.num_classes):
                cosine = z[v, i] @ prototypes[c] / (z[v, i].norm() * prototypes[c].norm())
                assert logits[v, 0, i, c].item() == pytest.approx(cosine.item(), abs=1e-6)
    cluster = ce = 0.0
    mean = np.zeros(TASK.num_classes)
    for v in range(V):
        for i in range(B):
            own, other = log_softmax(logits[v, 0, i], 0.1), log_softmax(logits[1 - v, 0, i], 0.07)
            cluster -= sum(math.exp(q) * p for q, p in zip(other, own, strict=True)) / (V * B)
            mean += np.exp(own) / (V * B)
            if i < N:
                ce -= own[int(batch.labels[i])] / (V * N)
    entropy = -sum(p * math.log(p) for p in mean)
    losses = {name: value.item() for name, value in method.loss(out, batch, clock(0)).items()}
    projected = out["projected"]
    assert losses == {
        "cluster": pytest.approx(0.65 * cluster, rel=1e-4),
        "entropy": pytest.approx(0.65 * 1.5 * (math.log(5) - entropy), rel=1e-3, abs=1e-6),
        "ce": pytest.approx(0.35 * ce, rel=1e-4),
        "contrast": pytest.approx(0.65 * contrast(projected, torch.arange(B), 1.0).item(), rel=1e-5),
        "known_contrast": pytest.approx(
            0.35 * contrast(projected[:, :N], batch.labels, 0.07).item(), rel=1e-5
        ),
    }


def test_the_other_view_gets_no_gradient() -> None:
    method, batch = made(entropy=0.0)
    out = method(batch, clock(0))
    logits = out["logits"].detach().requires_grad_()
    loss = method.loss({**out, "logits": logits}, batch, clock(0))["cluster"]
    (found,) = torch.autograd.grad(loss.sum(), logits)
    p, q = (logits[:, 0] / 0.1).softmax(-1), (logits[:, 0] / 0.07).softmax(-1).flip(0)
    torch.testing.assert_close(found[:, 0], 0.65 * (p - q) / (0.1 * V * B), rtol=1e-3, atol=1e-6)


def test_prototypes_have_unit_length_whatever_their_weights_are() -> None:
    method, batch = made()
    before = method(batch, clock(0))["logits"]
    before.square().sum().backward()
    gradient = method.prototypes.weight.grad
    assert gradient is not None
    torch.testing.assert_close(
        (gradient * method.prototypes.weight).sum(1), torch.zeros(5), atol=1e-4, rtol=0
    )
    with torch.no_grad():
        method.prototypes.weight.mul_(3)
    torch.testing.assert_close(method(batch, clock(0))["logits"], before)


def test_the_teacher_sharpens_in_the_first_epochs() -> None:
    config = SimGCD.Config()
    schedule = [*np.linspace(0.07, 0.04, 30), 0.04, 0.04]
    for epoch, expected in enumerate(schedule):
        assert teacher_temperature(clock(epoch), config).item() == pytest.approx(expected, abs=1e-6)
    at_once, short = replace(config, teacher_epochs=0), replace(config, teacher_epochs=1)
    assert teacher_temperature(clock(0), at_once).item() == pytest.approx(0.04)
    assert [round(teacher_temperature(clock(e), short).item(), 3) for e in (0, 1)] == [0.07, 0.04]


def test_no_entropy_is_missing_where_all_classes_are_equally_frequent() -> None:
    even = torch.eye(4).repeat(3, 1)[:, None]
    assert missing_entropy(even, 0.01).item() == pytest.approx(0, abs=1e-6)
    assert missing_entropy(torch.eye(4)[:1], 0.01).item() == pytest.approx(math.log(4), abs=1e-6)


def test_scores_are_cosines_over_tau() -> None:
    method, batch = made()
    x = batch.views[0][0]
    expected = F.cosine_similarity(x[:, None], method.prototypes.weight[None], dim=-1) / 0.1
    torch.testing.assert_close(method.scores(x)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_all_beat_plain_k_means_on_a_mixed_pile_of_vectors(tmp_path: Path) -> None:
    data, found = mixed_vectors(noise=0.7, nuisance=2.0), {}
    for name in ("kmeans", "gcd", "simgcd", "uno-v2", "iic"):
        recipe = recipe_for(name, "vectors", {"device": "cpu", "evaluate_every": 100})
        report = Run(Folder(tmp_path / name), data, recipe).discover().generalised
        assert report is not None
        found[name] = report.train.all.mean or 0
    assert min(found.values()) == found["kmeans"] < sorted(found.values())[1] - 0.2
