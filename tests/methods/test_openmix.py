"""OpenMix against its objective as loops, what its mixtures are made of and its values."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from newfound.core.records import Batch, Clock, Task
from newfound.core.registry import method_entry, recipe_for
from newfound.methods.openmix import OpenMix, larger_shares, mix, mixed_partners, squared_error
from newfound.nn.encoders.small import SmallEncoder

TASK = Task(3, 2)
N, M, C = 4, 5, 5


def openmix(**settings: Any) -> OpenMix:
    torch.manual_seed(0)
    return OpenMix(SmallEncoder(), TASK, OpenMix.Config(**settings))


def batch() -> Batch:
    torch.manual_seed(1)
    return Batch((torch.rand(2, N + M, 3, 8, 8),), torch.arange(N) % 3, torch.arange(N + M))


def test_the_objective_is_its_definition() -> None:
    images, clock = batch(), Clock(torch.tensor(10.0))
    threshold = openmix()(images, clock)["both"][0, N:, 3:].softmax(-1).amax(-1).median().item()
    method = openmix(top=2, threshold=threshold)
    out = method(images, clock)
    first = out["features"][0].detach().clone()
    first[N] = first[N + 1]
    out["features"] = torch.stack([first, torch.rand_like(first)])  # only the first view is ranked
    losses = {name: value.item() for name, value in method.loss(out, images, clock).items()}
    logits = out["both"].double()
    assert logits.shape == (2, N + M, C)
    known, novel = (part.softmax(-1).tolist() for part in (logits[..., :3], logits[..., 3:]))
    z = out["features"].tolist()
    ce = -sum(math.log(known[0][i][int(images.labels[i])]) for i in range(N)) / N
    assert losses["ce"] == pytest.approx(ce, rel=1e-4)
    pairs, mse = 0.0, 0.0
    for i in range(N, N + M):
        for j in range(N, N + M):
            top_i, top_j = (set(sorted(range(128), key=lambda d, s=s: -z[0][s][d])[:2]) for s in (i, j))  # type: ignore[misc]
            alike = sum(a * b for a, b in zip(novel[0][i], novel[1][j], strict=True))
            pairs -= math.log((alike if top_i == top_j else 1 - alike) + 1e-7) / M**2
    assert losses["bce"] == pytest.approx(pairs, rel=1e-4)
    for p in (known, novel):
        width = len(p[0][0])
        mse += sum((p[0][i][c] - p[1][i][c]) ** 2 for i in range(N + M) for c in range(width)) / (9 * width)
    assert losses["consistency"] == pytest.approx(math.exp(-5 * (1 - 10 / 50) ** 2) * 5 * mse, rel=1e-3)
    p, targets = out["mixed"].double().softmax(-1).tolist(), out["targets"].tolist()
    distances = [
        sum((a - b) ** 2 for a, b in zip(*rows, strict=True)) for rows in zip(p, targets, strict=True)
    ]
    assert losses["mixed"] == pytest.approx(sum(distances[:M]) / M, rel=1e-4)
    sure = sorted(range(M), key=lambda i: max(novel[0][N + i]))[-(M // 2) :]
    assert losses["anchored"] == pytest.approx(sum(distances[M + i] for i in sure) / len(sure), rel=1e-4)


def test_images_and_targets_are_mixed_alike_and_mostly_of_what_is_certain() -> None:
    method, images = openmix(), batch()
    q = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [1.0, 0.0], [0.3, 0.7]])
    torch.manual_seed(2)
    mixed, targets = method.mixtures(images, q)
    torch.manual_seed(2)
    shares = larger_shares(2 * M, 1.0, torch.device("cpu"))
    x = images.views[0][0]
    for i in range(M):
        e, label = shares[i].item(), int(images.labels[i % N])
        torch.testing.assert_close(mixed[i], e * x[i % N] + (1 - e) * x[N + i])
        of_label = [e if c == label else 0.0 for c in range(3)]
        assert targets[i].tolist() == pytest.approx([*of_label, *((1 - e) * q[i]).tolist()])
        e, other = shares[M + i].item(), (i + 1) % M
        torch.testing.assert_close(mixed[M + i], e * x[N + i] + (1 - e) * x[N + other])
        of_both = (e * q[i] + (1 - e) * q[other]).tolist()
        assert targets[M + i].tolist() == pytest.approx([0.0, 0.0, 0.0, *of_both])


def test_pseudo_labels_carry_no_gradient_and_unsure_ones_are_no_anchors() -> None:
    method, images, clock = openmix(threshold=1.0), batch(), Clock(torch.tensor(0.0))
    out = method(images, clock)
    assert not out["targets"].requires_grad
    assert method.loss(out, images, clock)["anchored"].item() == 0


def test_known_and_novel_classes_are_scored_together() -> None:
    method, images = openmix().eval(), torch.rand(4, 3, 8, 8)
    z = method.encoder(images)
    assert torch.equal(method.scores(images), torch.cat([method.h(z), method.g(z)], -1)[None])


RS_STAGES = {
    "encoder": "rs-resnet18",
    "rotnet.epochs": 200,
    "known.epochs": 100,
    "known.trains": "last-block",
}
RECALLED = {"beta": 1.0, "threshold": 0.9, "mixing": 1.0, "top": 5, "trains": "last-block"}


@pytest.mark.parametrize(
    ("benchmark", "values"),
    [
        (
            "cifar10",
            RS_STAGES | RECALLED | {"consistency": 5, "rampup": 50, "epochs": 200, "batch_size": 128},
        ),
        ("imagenet-30-b", RECALLED | {"consistency": 10, "rampup": 50, "epochs": 90, "rotnet.epochs": 0}),
        ("cifar100-20", RS_STAGES | RECALLED | {"consistency": 50, "rampup": 150, "augmentation": "twice"}),
    ],
)
def test_values(benchmark: str, values: dict[str, Any]) -> None:
    flat = recipe_for("openmix", benchmark).flat()
    assert {key: flat[key] for key in values} == values


def test_no_value_is_called_published() -> None:
    assert not method_entry("openmix").published


def test_it_is_the_mean_squared_distance_of_those_that_count() -> None:
    torch.manual_seed(0)
    logits, targets = torch.randn(5, 4), torch.randn(5, 4).softmax(-1)
    counted = torch.tensor([True, False, True, True, False])
    p, t = logits.double().softmax(-1).tolist(), targets.tolist()
    distances = [sum((p[i][c] - t[i][c]) ** 2 for c in range(4)) for i in (0, 2, 3)]
    assert squared_error(logits, targets, counted).item() == pytest.approx(sum(distances) / 3, rel=1e-5)
    everything = torch.ones(5, dtype=torch.bool)
    assert squared_error(logits, targets) == pytest.approx(squared_error(logits, targets, everything))


def test_it_is_nothing_where_none_counts() -> None:
    logits = torch.randn(3, 2, requires_grad=True)
    loss = squared_error(logits, torch.zeros(3, 2), torch.zeros(3, dtype=torch.bool))
    torch.autograd.backward(loss)
    assert loss == 0
    assert logits.grad is not None
    assert not logits.grad.any()


CPU = torch.device("cpu")


def test_a_mixture_is_the_weighted_sum_of_two_rows() -> None:
    torch.manual_seed(0)
    first, second = (torch.rand(4, 3, 2, 2, dtype=torch.float64) for _ in range(2))
    shares = torch.tensor([0.5, 0.7, 1.0, 0.0], dtype=torch.float64)
    mixed = mix(first, second, shares)
    for i, share in enumerate(shares.tolist()):
        torch.testing.assert_close(mixed[i], share * first[i] + (1 - share) * second[i])
    torch.testing.assert_close(mix(first[:, 0, 0], second[:, 0, 0], shares), mixed[:, 0, 0])


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7))
def test_every_unlabelled_sample_meets_a_labelled_and_an_unlabelled_one(N: int, M: int) -> None:
    first, second = (rows.tolist() for rows in mixed_partners(N, M, CPU))
    unlabelled = list(range(N, N + M))
    assert first[:M] == [i % N for i in range(M)]
    assert second[:M] == first[M:] == unlabelled
    assert sorted(second[M:]) == unlabelled
    assert M == 1 or all(a != b for a, b in zip(first[M:], second[M:], strict=True))


@pytest.mark.parametrize("beta", [0.3, 1.0, 4.0])
def test_shares_are_the_larger_parts_of_draws_from_beta(beta: float) -> None:
    torch.manual_seed(0)
    shares = larger_shares(20_000, beta, CPU).double()
    assert shares.min() >= 0.5
    assert shares.max() <= 1
    # max(eta, 1 - eta) is as far from one half as eta, whose variance is 1 / (4 (2 beta + 1)).
    assert (shares - 0.5).square().mean().item() == pytest.approx(1 / (8 * beta + 4), rel=0.05)


def test_shares_of_a_very_uneven_beta_are_finite() -> None:
    torch.manual_seed(0)
    assert larger_shares(1000, 1e-3, CPU).isfinite().all()
