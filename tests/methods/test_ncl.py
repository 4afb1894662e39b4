"""NCL against its objective as loops, its memories, hard negatives and published values."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from newfound.core.records import Batch, Clock, Task, total
from newfound.core.registry import recipe_for
from newfound.methods.ncl import (
    NCL,
    class_contrast,
    cosine_above,
    hardest_mixtures,
    mixtures,
    neighbour_contrast,
)
from newfound.nn.encoders.small import SmallEncoder

TASK = Task(3, 2)
N, M, TAU = 4, 5, 0.05


def ncl(**settings: Any) -> NCL:
    torch.manual_seed(0)
    return NCL(SmallEncoder(), TASK, NCL.Config(**{"memory": 8, "known_memory": 6} | settings))


def batch(seed: int = 1) -> Batch:
    torch.manual_seed(seed)
    return Batch((torch.rand(2, N + M, 3, 8, 8),), torch.arange(N) % 3, torch.arange(N + M))


def at(epoch: int) -> Clock:
    return Clock(torch.tensor(float(epoch)))


def cosine(a: Tensor, b: Tensor) -> float:
    x, y = a.double().tolist(), b.double().tolist()
    product = sum(s * t for s, t in zip(x, y, strict=True))
    return float(product / math.sqrt(sum(s * s for s in x) * sum(t * t for t in y)))


def soft_cross_entropy(logits: list[float], targets: list[float]) -> float:
    assert sum(targets) == pytest.approx(1)
    everything = math.log(sum(math.exp(logit) for logit in logits))
    return sum(t * (everything - logit) for t, logit in zip(targets, logits, strict=True))


def test_the_objective_is_its_definition() -> None:
    method, clock = ncl(similarity=0.9, contrast=2.0), at(10)
    for seed in (5, 6):  # fills the memories
        method(batch(seed), clock)
    images = batch()
    memory, known_memory = method.memory.rows.clone(), method.known_memory.rows.clone()
    known_labels = method.known_labels.rows.tolist()
    out = method(images, clock)
    losses = {name: value.item() for name, value in method.loss(out, images, clock).items()}
    known, novel = (out[key].softmax(-1).double().tolist() for key in ("known", "novel"))
    assert (out["known"].shape[-1], out["novel"].shape[-1]) == (3, 2)
    q, k = out["unit"].detach()
    ce, bce, mse, contrast, known_contrast = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(N):
        label = int(images.labels[i])
        ce -= math.log(known[0][i][label]) / N
        logits = [cosine(q[i], row) / TAU for row in (k[i], *known_memory)]
        positive = [True, *(remembered == label for remembered in known_labels)]
        known_contrast += soft_cross_entropy(logits, [p / sum(positive) for p in positive]) / N
    for i in range(N, N + M):
        for j in range(N, N + M):
            alike = sum(a * b for a, b in zip(novel[0][i], novel[1][j], strict=True))
            same = cosine(q[i], q[j]) > 0.9
            bce -= math.log((alike if same else 1 - alike) + 1e-7) / M**2
        remembered = [cosine(q[i], row) / TAU for row in memory]
        nearest = sorted(range(8), key=lambda j: -remembered[j])[: 8 // (2 * 2)]
        targets = [0.2, *(0.8 / len(nearest) if j in nearest else 0.0 for j in range(8))]
        contrast += soft_cross_entropy([cosine(q[i], k[i]) / TAU, *remembered], targets) / M
    for p in (known, novel):
        C = len(p[0][0])
        mse += sum((p[0][i][c] - p[1][i][c]) ** 2 for i in range(N + M) for c in range(C)) / ((N + M) * C)
    ramp = math.exp(-5 * (1 - 10 / 50) ** 2)
    expected = {
        "ce": ce,
        "bce": bce,
        "consistency": ramp * 5 * mse,
        "contrast": 2 * contrast,
        "known_contrast": 0.1 * known_contrast,
    }
    assert losses == pytest.approx(expected, rel=1e-3)


def test_the_memories_hold_the_first_view_of_earlier_batches() -> None:
    method, first, second = ncl(memory=2 * M, known_memory=2 * N), batch(5), batch(6)
    assert method.known_labels.rows.tolist() == [-1] * 2 * N
    q = [method(images, at(0))["unit"][0] for images in (first, second)]
    out = method(first, at(0))
    torch.testing.assert_close(out["memory"], torch.cat([one[N:] for one in q]))
    torch.testing.assert_close(out["known_memory"], torch.cat([one[:N] for one in q]))
    assert out["known_labels"].tolist() == [0, 1, 2, 0] * 2


@pytest.mark.parametrize(("epoch", "batches", "waits"), [(0, 2, True), (1, 1, True), (1, 2, False)])
def test_neighbours_wait_for_the_second_epoch_and_a_full_memory(
    epoch: int, batches: int, waits: bool
) -> None:
    method, images = ncl(), batch()
    for seed in range(batches):
        method(batch(seed), at(0))
    losses = method.loss(method(images, at(epoch)), images, at(epoch))
    assert (losses["contrast"].item() == 0) == waits
    assert losses["known_contrast"].item() > 0


def test_a_step_can_be_taken_after_the_memories_have_moved_on() -> None:
    """Gradients reach the features of the first view alone."""
    method, images = ncl(), batch()
    for _ in range(2):
        method(images, at(0))
    out = method(images, at(1))
    out["unit"].retain_grad()
    losses = method.loss(out, images, at(1))
    total({name: losses[name] for name in ("contrast", "known_contrast")}).backward()  # type: ignore[no-untyped-call]
    assert out["unit"].grad is not None
    assert out["unit"].grad[0].abs().sum() > 0
    assert out["unit"].grad[1].abs().sum() == 0


def test_hard_negatives_begin_with_their_epoch() -> None:
    plain, images = {}, batch()
    for count in (0, 3):
        method = ncl(hard_negatives=count, farthest=2, partners=2)
        for seed in (5, 6):
            method(batch(seed), at(0))
        out = method(images, at(0))
        plain[count] = [method.loss(out, images, at(epoch))["contrast"].item() for epoch in (2, 3)]
    assert plain[3][0] == pytest.approx(plain[0][0])
    assert plain[3][1] > plain[0][1]


def test_hard_negatives_mix_remembered_images_of_both_kinds() -> None:
    method = ncl(hard_negatives=3, partners=2)
    method(batch(5), at(0))
    mixed = method(batch(), at(0))["mixed"]
    assert mixed.shape == (4, 8, 128)
    torch.testing.assert_close(mixed.norm(dim=-1), torch.ones(4, 8))
    again = method(batch(), at(0))["mixed"]
    assert not torch.equal(mixed, again)


@pytest.mark.parametrize(
    ("settings", "expected"), [({}, 2), ({"neighbours": 3}, 3), ({"neighbours": 9}, 8), ({"memory": 3}, 1)]
)
def test_neighbours_are_half_an_average_class_unless_they_are_given(
    settings: dict[str, int], expected: int
) -> None:
    assert ncl(**settings).neighbours == expected


@pytest.mark.parametrize(("wanted", "farthest"), [(3, 3), (100, 8)])
def test_the_farthest_are_no_more_than_are_remembered(wanted: int, farthest: int) -> None:
    assert ncl(farthest=wanted).farthest == farthest


def test_scores_are_those_of_both_heads_side_by_side() -> None:
    method, images = ncl().eval(), torch.rand(4, 3, 8, 8)
    z = method.encoder(images)
    assert torch.equal(method.scores(images), torch.cat([method.h(z), method.g(z)], -1)[None])
    assert torch.equal(method.both_scores(images)[1], method.g(z)[None])


COMMON = {
    "rotnet.epochs": 200,
    "known.epochs": 100,
    "encoder": "rs-resnet18",
    "similarity": 0.95,
    "contrast": 1.0,
    "known_contrast": 0.1,
    "tau": 0.05,
    "memory": 2000,
    "known_memory": 2000,
    "own_share": 0.2,
    "hard_from": 3,
    "partners": 5,
    "epochs": 200,
    "batch_size": 128,
    "lr": 0.1,
    "lr_falls": "0.85",
    "lr_factor": 0.1,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "trains": "last-block",
}
CIFAR10 = {
    "augmentation": "twice-reflect",
    "consistency": 5,
    "rampup": 50,
    "farthest": 50,
    "hard_negatives": 0,
}
CIFAR100 = {
    "augmentation": "twice",
    "consistency": 50,
    "rampup": 150,
    "farthest": 400,
    "hard_negatives": 400,
}
IMAGENET = {
    "rotnet.epochs": 0,
    "consistency": 10,
    "rampup": 50,
    "memory": 3000,
    "known_memory": 30000,
    "farthest": 400,
    "hard_negatives": 400,
    "epochs": 90,
    "batch_size": 512,
    "labelled_share": "three-quarters",
}


@pytest.mark.parametrize(
    ("benchmark", "published"),
    [("cifar10", COMMON | CIFAR10), ("cifar100-20", COMMON | CIFAR100), ("imagenet-30-a", IMAGENET)],
)
def test_published_values(benchmark: str, published: dict[str, Any]) -> None:
    flat = recipe_for("ncl", benchmark).flat()
    assert {key: flat[key] for key in published} == published


@pytest.mark.parametrize(
    ("benchmark", "num_novel", "neighbours"),
    [("cifar10", 5, 200), ("cifar100-20", 20, 50), ("imagenet-30", 30, 50)],
)
def test_published_neighbours(benchmark: str, num_novel: int, neighbours: int) -> None:
    config = recipe_for("ncl", benchmark).config
    assert NCL(SmallEncoder(), Task(3, num_novel), config).neighbours == neighbours


def unit(*shape: int, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(shape, generator=random, dtype=torch.float64), dim=-1)


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def test_a_class_draws_the_other_view_and_all_of_it_that_is_remembered() -> None:
    q, k, memory = unit(3, 4), unit(3, 4, seed=1), unit(5, 4, seed=2)
    labels, remembered, expected = [0, 1, 2], [0, 1, 0, -1, -1], 0.0
    for i in range(3):
        logits = [dot(q[i].tolist(), row) / 0.2 for row in [k[i].tolist(), *memory.tolist()]]
        positive = [True, *(label == labels[i] for label in remembered)]
        expected += soft_cross_entropy(logits, [p / sum(positive) for p in positive]) / 3
    loss = class_contrast(q, k, memory, torch.tensor(labels), torch.tensor(remembered).float(), 0.2)
    assert loss.item() == pytest.approx(expected)


@pytest.mark.parametrize("same_view", [False, True])
def test_neighbours_come_from_the_memory_and_share_what_the_other_view_leaves(same_view: bool) -> None:
    """The targets sum to one even where the other view is nearer than every neighbour."""
    q, memory, negatives = unit(3, 4), unit(6, 4, seed=2), unit(3, 2, seed=3)
    k, expected = q if same_view else unit(3, 4, seed=1), 0.0
    for i in range(3):
        remembered = [dot(q[i].tolist(), row) / 0.2 for row in memory.tolist()]
        nearest = sorted(range(6), key=lambda j: -remembered[j])[:2]
        shares = [0.8 / 2 if j in nearest else 0.0 for j in range(6)]
        own = dot(q[i].tolist(), k[i].tolist()) / 0.2
        driven = [cosine / 0.2 for cosine in negatives[i].tolist()]
        expected += soft_cross_entropy([own, *remembered, *driven], [0.2, *shares, 0.0, 0.0]) / 3
    loss = neighbour_contrast(q, k, memory, negatives, neighbours=2, own_share=0.2, tau=0.2)
    assert loss.item() == pytest.approx(expected)


def test_a_negative_at_minus_infinity_is_none() -> None:
    q, memory = unit(3, 4).requires_grad_(), unit(6, 4, seed=2)
    losses = [
        neighbour_contrast(q, q.detach(), memory, negatives, neighbours=2, own_share=0.2, tau=0.2)
        for negatives in (torch.empty(3, 0), torch.full((3, 2), -torch.inf))
    ]
    assert torch.equal(*losses)
    gradients = [torch.autograd.grad(loss, q)[0] for loss in losses]
    torch.testing.assert_close(*gradients)


def test_the_hardest_mixtures_are_the_nearest_of_those_of_the_farthest_rows() -> None:
    q, memory, labelled = unit(3, 4), unit(6, 4, seed=1), unit(5, 4, seed=2)
    partners = torch.tensor([[0, 1, 2, 3, 4, 0], [4, 4, 1, 1, 0, 2]])
    found = hardest_mixtures(q, memory, mixtures(memory, labelled, partners), farthest=3, count=4)
    for i in range(3):
        sample = q[i].tolist()
        far = sorted(range(6), key=lambda j, sample=sample: dot(sample, memory[j].tolist()))[:3]  # type: ignore[misc]
        cosines = []
        for j in far:
            for partner in partners[:, j].tolist():
                for a, b in ((2 / 3, 1 / 3), (1 / 3, 2 / 3)):
                    mixed = [
                        a * u + b * v
                        for u, v in zip(memory[j].tolist(), labelled[partner].tolist(), strict=True)
                    ]
                    cosines.append(dot(sample, mixed) / math.sqrt(dot(mixed, mixed)))
        assert found[i].tolist() == pytest.approx(sorted(cosines, reverse=True)[:4])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8))
def test_cosines_do_not_depend_on_lengths(seed: int, M: int) -> None:
    features = torch.randn(M, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    expected = [[bool(a @ b / (a.norm() * b.norm()) > 0.5) for b in features] for a in features * torch.pi]
    assert cosine_above(features, 0.5).tolist() == expected
