"""ComEx against its objective and its targets as loops, its published values and its traps."""

import math
from collections import deque
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.records import Batch, Clock, Outputs, Task, total
from newfound.core.registry import recipe_for
from newfound.methods.comex import ComEx, neighbour_targets, sharpened
from newfound.nn.encoders.small import SmallEncoder
from tests.methods import definitions

TASK, TAU, EPS = Task(3, 2), 0.1, 0.05
V, K, N, M, C_l, C_u, OVER = 2, 2, 4, 5, 3, 2, 6
CLOCK = Clock(torch.zeros(()))


def comex(**settings: Any) -> ComEx:
    torch.manual_seed(0)
    sizes = {"heads": K, "overcluster": 3, "hidden": 8, "projection": 4, "memory_size": 7}
    return ComEx(SmallEncoder(), TASK, ComEx.Config(**(sizes | settings)))


def batch(rows: int = N + M) -> Batch:
    torch.manual_seed(1)
    return Batch((torch.rand(V, rows, 3, 8, 8),), torch.arange(N) % C_l, torch.arange(rows))


def random_outputs() -> Outputs:
    """Cosines of every expert and targets, as forward gives them."""
    torch.manual_seed(2)
    B, known = N + M, (torch.rand(V, 1, N + M, C_l) * 2 - 1).expand(V, K, -1, -1)

    def cosines(*shape: int) -> Tensor:
        return torch.rand(shape) * 2 - 1

    return {
        "logits": torch.cat([known, cosines(V, K, B, C_u)], -1),
        "over": torch.cat([known, cosines(V, K, B, OVER)], -1),
        "b": cosines(V, B, C_l + C_u),
        "n": cosines(V, K, B, C_l + C_u),
        "n_over": cosines(V, K, B, C_l + OVER),
        "believed": torch.randn(V, K, M, C_u).softmax(-1),
        "believed_over": torch.randn(V, K, M, OVER).softmax(-1),
    }


def targets(labels: Tensor, believed: Tensor) -> Tensor:
    out = torch.zeros(V, K, N + M, C_l + believed.shape[-1], dtype=torch.float64)
    for i in range(N):
        out[:, :, i, int(labels[i])] = 1
    out[:, :, N:, C_l:] = believed
    return out


def by_set(b: Tensor, n: Tensor) -> Tensor:
    """Labelled rows from b, which says 0 of the over-clusters that it does not have, the others from n."""
    rows = torch.zeros_like(n)
    rows[:, :, :N, : b.shape[-1]] = b[:, None, :N]
    rows[:, :, N:] = n[:, :, N:]
    return rows


def test_the_objective_is_its_definition() -> None:
    out, images = random_outputs(), batch()
    x = {key: value.double() for key, value in out.items()}
    losses = comex(regulariser=0.7).loss(out, images, CLOCK)
    t, t_over = (targets(images.labels, x[key]) for key in ("believed", "believed_over"))
    ce, over = definitions.swapped(x["logits"], t, TAU), definitions.swapped(x["over"], t_over, TAU)
    ce_batch = definitions.swapped(by_set(x["b"], x["n"]), t, TAU)
    over_batch = definitions.swapped(by_set(x["b"], x["n_over"]), t_over, TAU)
    forbidden = (
        x["b"][:, None, :N, C_l:].expand(-1, K, -1, -1),
        x["n"][:, :, N:, :C_l],
        x["n_over"][:, :, N:, :C_l],
    )
    norms = [sum(float(value) ** 2 for value in tensor.flatten()) ** 0.5 for tensor in forbidden]
    definitions.assert_same(losses["ce"], ce / 2)
    definitions.assert_same(losses["over"], over.mean() / 2)
    batch_wise = [losses[key] for key in ("batch_known", "batch_novel", "batch_over")]
    definitions.assert_same(batch_wise[0] + batch_wise[1] + batch_wise[2], (ce_batch + over_batch.mean()) / 2)
    assert losses["norm"].item() == pytest.approx(0.7 * sum(norms) / 3, rel=1e-5)
    assert total(losses).item() == pytest.approx(
        sum(loss.mean().item() for loss in (ce, over, ce_batch, over_batch)) / 2 + 0.7 * sum(norms) / 3,
        rel=1e-5,
    )
    assert [key for key, value in losses.items() if value.ndim] == ["ce", "batch_novel"]


def test_norms_are_of_whole_tensors() -> None:
    """Twice the samples, each as before: means stay, Frobenius norms grow by the root of 2."""
    method, out, images = comex(), random_outputs(), batch()

    def doubled(x: Tensor, axis: int) -> Tensor:
        known, novel = x.split([N, M], axis)  # type: ignore[no-untyped-call]
        return torch.cat([known, known, novel, novel], axis)

    twice = {
        key: torch.cat([x, x], 2) if key.startswith("believed") else doubled(x, x.ndim - 2)
        for key, x in out.items()
    }
    more = Batch(images.views, images.labels.repeat(2), torch.arange(2 * (N + M)))
    one, two = method.loss(out, images, CLOCK), method.loss(twice, more, CLOCK)
    for key, value in one.items():
        torch.testing.assert_close(two[key], value * 2**0.5 if key == "norm" else value)


@pytest.mark.parametrize("groups", [1, 2])
def test_targets_are_shared_and_those_of_neighbours_once_the_memory_is_full(groups: int) -> None:
    """Steps of 5 samples into a memory of 7: two are needed to fill it."""
    method = comex(neighbours=0.4, neighbour_tau=0.2, sharpening=0.25)
    memory = [[deque[tuple[Tensor, Tensor]](maxlen=7) for _ in range(K)] for _ in range(V)]
    torch.manual_seed(3)
    for _ in range(4):
        group = [
            (torch.rand(V, K, N + M, C_u) * 2 - 1, F.normalize(torch.randn(V, K, N + M, 4), dim=-1))
            for _ in range(groups)
        ]
        found = method.believed(group, method.memory, N)
        for v in range(V):
            for k in range(K):
                q = sum_over([definitions.sinkhorn(cosines[v, k, N:], EPS) for cosines, _ in group]) / groups
                place = sum_over([at[v, k, N:].double() for _, at in group])
                place = place / place.norm(dim=-1, keepdim=True)
                memory[v][k].extend((place[j], q[j]) for j in range(M))
                expected = [
                    neighbourly(q[j], place[j], memory[v][k]) if len(memory[v][k]) == 7 else q[j]
                    for j in range(M)
                ]
                torch.testing.assert_close(found[v, k].double(), torch.stack(expected), rtol=1e-4, atol=1e-5)


def neighbourly(q: Tensor, place: Tensor, memory: deque[tuple[Tensor, Tensor]]) -> Tensor:
    weights = torch.stack([(place @ other / 0.2).exp() for other, _ in memory])
    near = sum_over([w * target for w, (_, target) in zip(weights, memory, strict=True)]) / weights.sum()
    powers = (0.6 * q + 0.4 * near) ** 4
    return powers / powers.sum()


def sum_over(tensors: list[Tensor]) -> Tensor:
    return torch.stack(tensors).sum(0)


def test_the_known_head_is_taken_over_and_batch_wise_experts_start_fresh() -> None:
    method = comex()
    encoder = {f"encoder.{key}": value for key, value in SmallEncoder().state_dict().items()}
    h, b = F.normalize(torch.rand(C_l, 128), dim=-1), method.b.prototypes.detach().clone()
    assert "h.prototypes" in method.adopt({**encoder, "h.prototypes": h})
    assert torch.equal(method.h.prototypes, h)
    assert torch.equal(method.b.prototypes, b)


@pytest.mark.parametrize("batch_experts", [True, False])
def test_scores_add_up_all_experts(batch_experts: bool) -> None:
    method = comex(batch_experts=batch_experts).eval()
    images = torch.rand(5, 3, 8, 8)
    z = method.encoder(images)
    for head in range(K):
        logits = torch.cat([method.h(z), method.g(z[None])[0, head]], -1)
        if batch_experts:
            logits = logits + method.b(z) + method.n(z[None])[0, head]
        torch.testing.assert_close(method.scores(images)[head], logits / TAU)
        among_novel = logits[:, C_l:] - (method.b(z)[:, C_l:] if batch_experts else 0)
        torch.testing.assert_close(method.both_scores(images)[1][head], among_novel / TAU)


def test_the_class_wise_logits_are_the_joint_ones() -> None:
    method, images = comex(), batch()
    z = method.encode(images.views)
    logits = method(images, CLOCK)["logits"]
    assert logits.shape == (V, K, N + M, C_l + C_u)
    torch.testing.assert_close(logits[:, 0, :, :C_l], method.h(z), rtol=1e-4, atol=1e-4)


def test_without_batch_wise_experts_none_exists() -> None:
    method, images = comex(batch_experts=False), batch()
    assert {name.split(".")[0] for name, _ in method.named_parameters()} == {"encoder", "h", "g", "o"}
    assert set(method.loss(method(images, CLOCK), images, CLOCK)) == {"ce", "over"}


def test_every_prototype_is_normalised_after_a_step() -> None:
    method = comex()
    lengths = [p.data.mul_(3) for name, p in method.named_parameters() if name.endswith("prototypes")]
    assert len(lengths) == 6
    method.after_step()
    for prototypes in lengths:
        torch.testing.assert_close(prototypes.norm(dim=-1), torch.ones(prototypes.shape[:-1]))


CIFAR = {
    "batch_experts": True,
    "regulariser": 1.0,
    "memory_size": 500,
    "neighbours": 0.5,
    "neighbour_tau": 0.1,
    "sharpening": 0.5,
    "tau": 0.1,
    "sinkhorn_eps": 0.05,
    "heads": 4,
    "overcluster": 3,
    "hidden": 2048,
    "projection": 256,
    "large_crops": 2,
    "small_crops": 0,
    "epochs": 200,
    "batch_size": 256,
    "augmentation": "v1",
    "labelled_share": "proportional",
    "lr": 0.2,
    "warmup": 10,
    "weight_decay": 1.5e-4,
    "pretrain.epochs": 200,
    "pretrain.augmentation": "v1",
}
IMAGENET = CIFAR | {
    "batch_experts": False,
    "epochs": 60,
    "warmup": 5,
    "labelled_share": "half",
    "pretrain.epochs": 100,
}


@pytest.mark.parametrize(
    ("benchmark", "published"),
    [
        *((name, CIFAR) for name in ("cifar10", "cifar100-20", "cifar100-50")),
        *((f"imagenet-30-{subset}", IMAGENET) for subset in "abc"),
    ],
)
def test_published_values(benchmark: str, published: dict[str, Any]) -> None:
    flat = recipe_for("comex", benchmark).flat()
    assert {key: flat[key] for key in published} == published


def test_targets_are_the_weighted_mean_of_the_remembered_ones() -> None:
    torch.manual_seed(0)
    V, K, M, S, D, C, tau = 2, 2, 3, 5, 4, 3, 0.1
    features, remembered = (F.normalize(torch.randn(V, K, n, D), dim=-1) for n in (M, S))
    targets = torch.randn(V, K, S, C).softmax(-1)
    found = neighbour_targets(features, remembered, targets, tau)
    assert found.shape == (V, K, M, C)
    for v in range(V):
        for k in range(K):
            for i in range(M):
                cosines = [
                    sum(a * b for a, b in zip(features[v, k, i].tolist(), row.tolist(), strict=True))
                    for row in remembered[v, k]
                ]
                weights = [math.exp(cosine / tau) for cosine in cosines]
                for c in range(C):
                    mean = sum(w * t for w, t in zip(weights, targets[v, k, :, c].tolist(), strict=True))
                    assert found[v, k, i, c].item() == pytest.approx(mean / sum(weights), rel=1e-4)


@pytest.mark.parametrize("temperature", [0.25, 0.5, 1.0])
def test_sharpening_raises_to_a_power_and_normalises(temperature: float) -> None:
    p = [0.5, 0.3, 0.2, 0.0]
    powers = [x ** (1 / temperature) for x in p]
    expected = [x / sum(powers) for x in powers]
    assert sharpened(torch.tensor(p), temperature).tolist() == pytest.approx(expected, rel=1e-5)


def test_neither_has_a_gradient() -> None:
    leaf = torch.rand(1, 2, 3, requires_grad=True)
    assert not neighbour_targets(leaf, leaf, leaf, 0.1).requires_grad
    assert not sharpened(leaf, 0.5).requires_grad


def test_they_are_float32_under_any_autocast() -> None:
    torch.manual_seed(0)
    case = F.normalize(torch.randn(4, 6), dim=-1), F.normalize(torch.randn(9, 6), dim=-1), torch.rand(9, 3)
    with torch.autocast("cpu", torch.bfloat16):
        found = neighbour_targets(*case, 0.1)
    assert torch.equal(found, neighbour_targets(*case, 0.1))
