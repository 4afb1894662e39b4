"""RS and RS+ against their objective as loops, their published values and what h takes over."""

import math
from typing import Any

import pytest
import torch

from newfound.core.records import Batch, Clock, Task
from newfound.core.registry import recipe_for
from newfound.methods.rs import RS
from newfound.nn.encoders.small import SmallEncoder

TASK = Task(3, 2)


def rs(**settings: Any) -> RS:
    torch.manual_seed(0)
    return RS(SmallEncoder(), TASK, RS.Config(**settings))


def batch(N: int = 4, M: int = 5) -> Batch:
    torch.manual_seed(1)
    return Batch((torch.rand(2, N + M, 3, 8, 8),), torch.arange(N) % 3, torch.arange(N + M))


@pytest.mark.parametrize("incremental", [False, True])
def test_the_objective_is_its_definition(incremental: bool) -> None:
    method, images, clock = rs(incremental=incremental, top=2), batch(), Clock(torch.tensor(10.0))
    # Few features, so that pairs share their largest ones; the other view has other pairs and classes.
    out = method(images, clock) | {"features": torch.rand(2, 9, 4), "novel": torch.randn(2, 9, 2)}
    losses = {name: value.item() for name, value in method.loss(out, images, clock).items()}
    known, novel = (out[key].softmax(-1).double().tolist() for key in ("known", "novel"))
    z = out["features"].tolist()
    assert losses["ce"] == pytest.approx(
        -sum(math.log(known[0][i][int(images.labels[i])]) for i in range(4)) / 4, rel=1e-4
    )
    pairs, mse = 0.0, 0.0
    for i in range(4, 9):
        for j in range(4, 9):
            top_i, top_j = (set(sorted(range(4), key=lambda d, s=s: -z[0][s][d])[:2]) for s in (i, j))  # type: ignore[misc]
            alike = sum(a * b for a, b in zip(novel[0][i], novel[1][j], strict=True))
            pairs -= math.log((alike if top_i == top_j else 1 - alike) + 1e-7) / 25
    assert losses["bce"] == pytest.approx(pairs, rel=1e-4)
    for p in (known, novel):
        C = len(p[0][0])
        mse += sum((p[0][i][c] - p[1][i][c]) ** 2 for i in range(9) for c in range(C)) / (9 * C)
    ramp = math.exp(-5 * (1 - 10 / 50) ** 2)
    assert losses["consistency"] == pytest.approx(ramp * 5 * mse, rel=1e-3)
    if incremental:
        believed = [3 + max(range(2), key=lambda c, i=i: novel[0][i][c]) for i in range(4, 9)]  # type: ignore[misc]
        ce = -sum(math.log(known[0][4 + n][c]) for n, c in enumerate(believed)) / 5
        assert losses["incremental"] == pytest.approx(ramp * 0.05 * ce, rel=1e-4)
    assert ("incremental" in losses) == incremental


def test_rs_plus_enlarges_the_known_head() -> None:
    method = rs(incremental=True)
    old = {"h.weight": torch.rand(3, 128), "h.bias": torch.tensor([0.3, -0.2, 0.1])}
    encoder = {f"encoder.{key}": value for key, value in SmallEncoder().state_dict().items()}
    fresh = method.h.weight.detach()[3:].clone()
    assert "h.weight" in method.adopt({**encoder, **old})
    assert torch.equal(method.h.weight[:3], old["h.weight"])
    assert torch.equal(method.h.weight[3:], fresh)
    assert method.h.bias.tolist() == pytest.approx([0.3, -0.2, 0.1, -1.2, -1.2])


def test_each_protocol_asks_the_head_that_the_paper_asks() -> None:
    images = torch.rand(4, 3, 8, 8)
    for incremental in (False, True):
        method = rs(incremental=incremental).eval()
        z = method.encoder(images)
        joint = method.h(z) if incremental else torch.cat([method.h(z), method.g(z)], -1)
        assert torch.equal(method.scores(images), joint[None])
        assert method.joint == incremental
        assert torch.equal(method.both_scores(images)[1], method.g(z)[None])


RS_STAGES = {
    "rotnet.epochs": 200,
    "rotnet.batch_size": 128,
    "rotnet.optimiser": "nesterov",
    "rotnet.lr": 0.1,
    "rotnet.lr_falls": "0.3,0.6,0.8",
    "rotnet.lr_factor": 0.2,
    "rotnet.weight_decay": 5e-4,
    "rotnet.augmentation": "weak",
    "known.epochs": 100,
    "known.batch_size": 128,
    "known.lr": 0.1,
    "known.lr_factor": 0.5,
    "known.trains": "last-block",
    "known.weight_decay": 1e-4,
    "encoder": "rs-resnet18",
    "top": 5,
    "lr": 0.1,
    "lr_falls": "0.85",
    "lr_factor": 0.1,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "trains": "last-block",
}
CIFAR10 = {"augmentation": "twice-reflect", "consistency": 5, "rampup": 50, "epochs": 200, "batch_size": 128}
CIFAR100 = {"augmentation": "twice", "consistency": 50, "rampup": 150, "epochs": 200, "batch_size": 128}
PLUS = CIFAR100 | {"consistency": 25, "rampup": 300, "epochs": 400, "batch_size": 256}
IMAGENET = {
    "consistency": 10,
    "rampup": 50,
    "epochs": 90,
    "batch_size": 512,
    "labelled_share": "three-quarters",
    "rotnet.epochs": 0,
    "encoder": "auto",
}


@pytest.mark.parametrize(
    ("name", "benchmark", "published"),
    [
        ("rs", "cifar10", RS_STAGES | CIFAR10),
        ("rs", "cifar100-20", RS_STAGES | CIFAR100),
        ("rs", "cifar100-50", RS_STAGES | CIFAR100),
        ("rs", "imagenet-30-a", IMAGENET),
        ("rs+", "cifar10", RS_STAGES | CIFAR10 | {"self_training": 0.05, "incremental": True}),
        ("rs+", "cifar100-20", RS_STAGES | PLUS),
        ("rs+", "cifar100-50", RS_STAGES | PLUS),
    ],
)
def test_published_values(name: str, benchmark: str, published: dict[str, Any]) -> None:
    flat = recipe_for(name, benchmark).flat()
    assert {key: flat[key] for key in published} == published


def test_rs_plus_takes_its_own_weights_as_they_are() -> None:
    first, second = rs(incremental=True), rs(incremental=True)
    with torch.no_grad():
        first.h.bias.fill_(0.5)
    second.adopt(first.state_dict())
    assert torch.equal(second.h.bias, first.h.bias)
