"""UNO's whole loss, v1 and v2, against its definition as float64 loops, and the published values."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from newfound.core.records import Batch, Clock, Task, total
from newfound.core.registry import recipe_for
from newfound.losses.prediction import swapped_cross_entropy
from newfound.methods.uno import UNO
from newfound.nn.encoders.small import SmallEncoder
from newfound.pseudo.sinkhorn import unified_targets
from tests.methods import definitions
from tests.methods.definitions import SIZES, Sizes, assert_same, assert_same_gradients, random_case

TAU, EPS = 0.1, 0.05
CLOCK = Clock(torch.zeros(()))
VERSIONS = ["uno-v1", "uno-v2"]


def uno(version: str, sizes: Sizes, **settings: Any) -> UNO:
    """As the registry makes it, but for its sizes."""
    config = replace(
        recipe_for(version, "cifar10").config,
        heads=sizes.K,
        overcluster=sizes.F,
        hidden=4,
        projection=4,
        large_crops=sizes.large,
        small_crops=sizes.small,
        **settings,
    )
    return UNO(SmallEncoder(), Task(sizes.C_l, sizes.C_u), config)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("version", VERSIONS)
def test_loss_and_gradient_are_their_definition(version: str, sizes: Sizes) -> None:
    """v1: softmax over the batch, L_cluster + L_over; v2: over the classes, (L_cluster + L_over) / 2."""
    axis: definitions.Axis = "batch" if version == "uno-v1" else "class"
    weight = 1.0 if version == "uno-v1" else 0.5
    single, double, batch = random_case(sizes, seed=0)
    losses = uno(version, sizes).loss(single.outputs(), batch, CLOCK)
    out = double.outputs()
    ce, over = (
        weight
        * definitions.swapped(x, definitions.targets(x, batch.labels, sizes.C_l, sizes.large, EPS), TAU, axis)
        for x in (out["logits"], out["over"])
    )
    assert list(losses) == ["ce", "over"]
    assert_same(losses["ce"], ce)
    assert_same(losses["over"], over.mean())
    assert_same_gradients(total(losses), single, ce.mean() + over.mean(), double)


def test_class_sizes_may_be_learned() -> None:
    sizes = Sizes(N=4, M=6)
    single, _, batch = random_case(sizes, seed=0)
    method = uno("uno-v2", sizes, prior="learned")
    losses, out = method.loss(single.outputs(), batch, CLOCK), single.outputs()
    for name, logits in (("ce", out["logits"]), ("over", out["over"])):
        targets = unified_targets(logits, batch, method.views, method.task, EPS, "learned")
        expected = swapped_cross_entropy(logits, targets, TAU) / 2
        torch.testing.assert_close(losses[name], expected.mean() if name == "over" else expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_over_clusters_are_counted_by_novel_class(version: str) -> None:
    config = replace(recipe_for(version, "digits").config, overcluster=4)
    method, features = UNO(SmallEncoder(), Task(2, 3), config), torch.rand(1, 5, SmallEncoder.dim)
    assert [head(features).shape[-1] for head in (method.h, method.g, method.o)] == [2, 3, 12]


@pytest.mark.parametrize("version", ["uno-v1", "uno-v2"])
def test_views_of_each_version(version: str) -> None:
    views = UNO(SmallEncoder(), Task(2, 2), recipe_for(version, "cifar10").config).views
    assert (views.large, views.small) == {"uno-v1": (2, 0), "uno-v2": (2, 2)}[version]


@pytest.mark.parametrize("version", VERSIONS)
def test_projectors_see_normalised_features_in_v1_only(version: str) -> None:
    method = uno(version, Sizes(N=4, M=4))
    features = torch.randn(4, 8, SmallEncoder.dim)
    lengths = torch.linspace(0.5, 3, 8).view(1, 8, 1)
    batch = Batch((), torch.zeros(4, dtype=torch.int64), torch.arange(8))
    outs = []
    for z in (features, features * lengths):
        method.encode = lambda views, z=z: z  # type: ignore[method-assign,misc]
        outs.append(method(batch, CLOCK)["logits"])
    torch.testing.assert_close(outs[0][..., :3], outs[1][..., :3])
    # BatchNorm enlarges what is left of float32 in features of length 1, hence 1e-3.
    unchanged = torch.allclose(outs[0][..., 3:], outs[1][..., 3:], atol=1e-3)
    assert unchanged == (version == "uno-v1")


@pytest.mark.parametrize("version", VERSIONS)
def test_scores_are_the_joint_logits_over_tau(version: str) -> None:
    method = uno(version, Sizes()).eval()
    images = torch.rand(5, 3, 8, 8)
    z = method.encoder(images)
    if version == "uno-v1":
        z = z / z.norm(dim=-1, keepdim=True)
    for head in range(2):
        expected = torch.cat([method.h(z), method.g(z[None])[0, head]], -1) / TAU
        torch.testing.assert_close(method.scores(images)[head], expected)


COMMON = {
    "tau": 0.1,
    "sinkhorn_eps": 0.05,
    "heads": 4,
    "hidden": 2048,
    "projection": 256,
    "large_crops": 2,
    "warmup": 10,
    "min_lr": 0.001,
    "momentum": 0.9,
    "labelled_share": "proportional",
    "pretrain.epochs": 200,
    "pretrain.batch_size": 256,
    "pretrain.lr": 0.1,
    "pretrain.min_lr": 0.001,
    "pretrain.warmup": 10,
    "pretrain.momentum": 0.9,
    "pretrain.weight_decay": 1e-4,
}
V1 = COMMON | {
    "softmax_axis": "batch",
    "normalise_features": True,
    "combine": "sum",
    "small_crops": 0,
    "augmentation": "v1",
    "pretrain.augmentation": "v1",
    "lr": 0.1,
    "weight_decay": 1e-4,
    "batch_size": 256,
    "epochs": 200,
    "overcluster": 3,
}
V2 = COMMON | {
    "softmax_axis": "class",
    "normalise_features": False,
    "combine": "mean",
    "small_crops": 2,
    "augmentation": "v2",
    "pretrain.augmentation": "v2",
    "lr": 0.4,
    "weight_decay": 1.5e-4,
    "batch_size": 512,
    "epochs": 500,
}
# v1 has a learning rate and a number of heads of its own on ImageNet; the rest is as in v2.
IMAGENET = {
    "labelled_share": "half",
    "epochs": 60,
    "batch_size": 2 * 256,
    "warmup": 5,
    "pretrain.epochs": 100,
    "pretrain.batch_size": 2 * 256,
    "pretrain.warmup": 5,
}


@pytest.mark.parametrize(
    ("version", "benchmark", "published"),
    [
        ("uno-v1", "cifar10", V1),
        ("uno-v1", "cifar100-20", V1),
        ("uno-v1", "cifar100-50", V1),
        *(("uno-v1", f"imagenet-30-{x}", V1 | IMAGENET | {"lr": 0.01, "heads": 3}) for x in "abc"),
        ("uno-v2", "cifar10", V2 | {"overcluster": 10}),
        ("uno-v2", "cifar100-20", V2 | {"overcluster": 5}),
        ("uno-v2", "cifar100-50", V2 | {"overcluster": 3}),
        *(("uno-v2", f"imagenet-30-{x}", V2 | IMAGENET | {"lr": 0.2, "overcluster": 4}) for x in "abc"),
    ],
)
def test_published_values(version: str, benchmark: str, published: dict[str, Any]) -> None:
    flat = recipe_for(version, benchmark).flat()
    assert {key: flat[key] for key in published} == published
