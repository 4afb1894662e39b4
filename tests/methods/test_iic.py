"""IIC's whole loss against its definition as float64 loops, and the values it was published with."""

from typing import Any

import pytest
import torch
from torch import Tensor

from newfound.core.records import Batch, Clock, Losses, Task, total
from newfound.core.registry import method_entry, recipe_for
from newfound.core.settings import ConstraintConfig
from newfound.losses.divergence import inter_class
from newfound.losses.prediction import swapped_cross_entropy
from newfound.methods.iic import IIC
from newfound.nn.encoders.small import SmallEncoder
from newfound.pseudo.sinkhorn import unified_targets
from tests.methods import definitions
from tests.methods.definitions import SIZES, Cosines, Sizes, assert_same, assert_same_gradients, random_case

TAU, EPS = 0.1, 0.05
CLOCK = Clock(torch.zeros(()))


def iic(sizes: Sizes, **settings: Any) -> IIC:
    config = IIC.Config(
        heads=sizes.K,
        overcluster=sizes.F,
        hidden=4,
        projection=4,
        large_crops=sizes.large,
        small_crops=sizes.small,
        **settings,
    )
    return IIC(SmallEncoder(), Task(sizes.C_l, sizes.C_u), config)


def definition(
    cosines: Cosines, batch: Batch, sizes: Sizes, alpha: float, beta: float, divergence: str, norm: str
) -> Losses:
    """Each term with its sign and weight."""
    out, N, C_l = cosines.outputs(), sizes.N, sizes.C_l
    ce, over = (
        definitions.swapped(logits, definitions.targets(logits, batch.labels, C_l, sizes.large, EPS), TAU)
        for logits in (out["logits"], out["over"])
    )
    losses = {"ce": ce / 2, "over": over.mean() / 2}
    if alpha:
        losses["inter"] = -alpha * definitions.inter(out["logits"], N, TAU)
    if beta:
        losses["intra"] = beta * definitions.intra(out["logits"], N, C_l, TAU, norm, divergence)
    return losses


CASES = [
    (0.05, 0.01, "skld", "code"),
    (0.02, 0.3, "skld", "paper"),
    (0.05, 0.5, "mse", "code"),
    (0.05, 0.0, "skld", "code"),
    (0.0, 0.01, "skld", "code"),
    (0.0, 0.0, "skld", "code"),
]


@pytest.mark.parametrize(("alpha", "beta", "divergence", "norm"), CASES)
@pytest.mark.parametrize("sizes", SIZES)
def test_every_term_is_its_definition(
    sizes: Sizes, alpha: float, beta: float, divergence: str, norm: str
) -> None:
    method = iic(sizes, alpha=alpha, beta=beta, intra=divergence, intra_norm=norm)
    single, double, batch = random_case(sizes, seed=0)
    losses = method.loss(single.outputs(), batch, CLOCK)
    expected = definition(double, batch, sizes, alpha, beta, divergence, norm)
    assert list(losses) == list(expected)
    for name, value in losses.items():
        assert_same(value, expected[name])
    assert_same(total(losses), added(expected))


def test_class_sizes_may_be_learned() -> None:
    sizes = Sizes(N=4, M=6)
    single, _, batch = random_case(sizes, seed=0)
    method = iic(sizes, prior="learned")
    losses, out = method.loss(single.outputs(), batch, CLOCK), single.outputs()
    for name, logits in (("ce", out["logits"]), ("over", out["over"])):
        targets = unified_targets(logits, batch, method.views, method.task, EPS, "learned")
        expected = swapped_cross_entropy(logits, targets, TAU) / 2
        torch.testing.assert_close(losses[name], expected.mean() if name == "over" else expected)


@pytest.mark.parametrize(("alpha", "beta", "divergence", "norm"), CASES[:4])
def test_gradient_of_the_total_is_that_of_the_definition(
    alpha: float, beta: float, divergence: str, norm: str
) -> None:
    sizes = Sizes()
    method = iic(sizes, alpha=alpha, beta=beta, intra=divergence, intra_norm=norm)
    single, double, batch = random_case(sizes, seed=1)
    loss = total(method.loss(single.outputs(), batch, CLOCK))
    expected = added(definition(double, batch, sizes, alpha, beta, divergence, norm))
    assert_same_gradients(loss, single, expected, double)


def added(losses: Losses) -> Tensor:
    """The sum of the terms, the one with a value for each head averaged."""
    return definitions.sum_of([value.mean() for value in losses.values()])


def test_over_clusters_are_so_many_times_the_novel_classes() -> None:
    method = IIC(SmallEncoder(), Task(2, 3), IIC.Config(heads=1, overcluster=5, hidden=4, projection=4))
    over = method(Batch((torch.rand(2, 4, 3, 8, 8),), torch.tensor([0, 1]), torch.arange(4)), CLOCK)["over"]
    assert over.shape[-1] == 2 + 5 * 3


def test_only_the_clustering_loss_ranks_the_heads() -> None:
    sizes = Sizes(K=3)
    single, _, batch = random_case(sizes, seed=0)
    losses = iic(sizes).loss(single.outputs(), batch, CLOCK)
    assert {name: tuple(value.shape) for name, value in losses.items()} == {
        "ce": (3,),
        "over": (),
        "inter": (),
        "intra": (),
    }


def test_inter_is_bounded_because_logits_are_cosines() -> None:
    """At most 2 / tau + log C, even for predictions as far apart as they can be."""
    known = torch.tensor([1.0, 1.0, -1.0, -1.0]).view(1, 4, 1).expand(4, 4, 1)
    cosines = Cosines(known, -known.unsqueeze(1), -known.unsqueeze(1))
    value = inter_class(cosines.outputs()["logits"], 2, TAU)
    assert 19 < value.item() < 2 / TAU + torch.tensor(2.0).log().item()


def test_projectors_see_the_features_as_they_are_and_the_known_head_their_direction() -> None:
    method = iic(Sizes(N=4, M=4))
    features = torch.randn(4, 8, SmallEncoder.dim)
    lengths = torch.linspace(0.5, 3, 8).view(1, 8, 1)
    batch = Batch((), torch.zeros(4, dtype=torch.int64), torch.arange(8))
    outs = []
    for z in (features, features * lengths):
        method.encode = lambda views, z=z: z  # type: ignore[method-assign,misc]
        outs.append(method(batch, CLOCK)["logits"])
    torch.testing.assert_close(outs[0][..., :3], outs[1][..., :3])
    assert not torch.allclose(outs[0][..., 3:], outs[1][..., 3:], atol=1e-3)


def test_scores_are_the_joint_logits_over_tau() -> None:
    method = iic(Sizes()).eval()
    images = torch.rand(5, 3, 8, 8)
    z = method.encoder(images)
    for head in range(2):
        expected = torch.cat([method.h(z), method.g(z[None])[0, head]], -1) / TAU
        torch.testing.assert_close(method.scores(images)[head], expected)


def test_clusters_are_counted_by_novel_class() -> None:
    method, features = (
        IIC(SmallEncoder(), Task(2, 3), IIC.Config(overcluster=4)),
        torch.rand(1, 5, SmallEncoder.dim),
    )
    assert [head(features).shape[-1] for head in (method.h, method.g, method.o)] == [2, 3, 12]


CIFAR = {
    "alpha": 0.05,
    "beta": 0.01,
    "intra": "skld",
    "intra_norm": "code",
    "tau": 0.1,
    "sinkhorn_eps": 0.05,
    "heads": 4,
    "hidden": 2048,
    "projection": 256,
    "large_crops": 2,
    "small_crops": 2,
    "epochs": 500,
    "batch_size": 512,
    "labelled_share": "proportional",
    "augmentation": "v2",
    "lr": 0.4,
    "min_lr": 0.001,
    "warmup": 10,
    "momentum": 0.9,
    "weight_decay": 1.5e-4,
    "optimiser": "sgd",
    "lr_falls": "",
    "pretrain.epochs": 200,
    "pretrain.batch_size": 256,
    "pretrain.augmentation": "v2",
    "pretrain.lr": 0.1,
    "pretrain.min_lr": 0.001,
    "pretrain.warmup": 10,
    "pretrain.momentum": 0.9,
    "pretrain.weight_decay": 1e-4,
}
IMAGENET = CIFAR | {
    "heads": 2,
    "overcluster": 4,
    "epochs": 60,
    "batch_size": 2 * 256,
    "labelled_share": "half",
    "lr": 0.2,
    "warmup": 5,
    "pretrain.epochs": 100,
    "pretrain.batch_size": 2 * 256,
    "pretrain.warmup": 5,
}


@pytest.mark.parametrize(
    ("benchmark", "published"),
    [
        ("cifar10", CIFAR | {"overcluster": 10}),
        ("cifar100-20", CIFAR | {"overcluster": 5, "alpha": 0.02}),
        ("cifar100-50", CIFAR | {"overcluster": 3}),
        *((f"imagenet-30-{subset}", IMAGENET) for subset in "abc"),
    ],
)
def test_published_values(benchmark: str, published: dict[str, Any]) -> None:
    flat = recipe_for("iic", benchmark).flat()
    assert {key: flat[key] for key in published} == published


def test_cross_only_is_iic_whose_inter_class_term_rewards_no_low_entropy() -> None:
    recipe = recipe_for("iic", "cifar10", method_entry("iic").variations["cross-only"])
    assert (recipe.config.alpha, recipe.config.beta, recipe.config.intra) == (0, 0.01, "skld")
    assert recipe.constraints == ConstraintConfig(alpha=0.05, beta=0.0, form="cross")
