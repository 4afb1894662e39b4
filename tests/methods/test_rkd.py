"""rKD against its objective as loops, its published values and its teacher."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from newfound.core.errors import CheckpointError
from newfound.core.records import Batch, Clock, Task, total
from newfound.core.registry import method_entry, recipe_for
from newfound.methods.rkd import RKD, relation_distillation
from newfound.nn.encoders.small import SmallEncoder
from tests.methods import definitions

TASK, TAU, EPS, T = Task(3, 2), 0.1, 0.05, 4.0
L, K, N, M, C_l = 2, 2, 4, 5, 3
CLOCK = Clock(torch.zeros(()))


def rkd(**settings: Any) -> RKD:
    torch.manual_seed(0)
    sizes = {"heads": K, "hidden": 8, "projection": 4}
    return RKD(SmallEncoder(), TASK, RKD.Config(**(sizes | settings)))


def batch() -> Batch:
    torch.manual_seed(1)
    large, small = torch.rand(L, N + M, 3, 8, 8), torch.rand(2, N + M, 3, 4, 4)
    return Batch((large, small), torch.arange(N) % C_l, torch.arange(N + M))


def distillation(logits: Tensor, teacher: Tensor) -> Tensor:
    """Of unlabelled samples in large crops, each weighted by how known it looks."""
    value = logits.new_zeros(())
    mean = (logits[:L, :, N:] / TAU / T).softmax(-1)[..., :C_l].sum(-1).mean()
    for v in range(L):
        for k in range(K):
            p = (logits[v, k, N:] / TAU / T).softmax(-1)
            known = p[:, :C_l].sum(-1)
            for j in range(M):
                p_teacher = (teacher[v, j] / TAU / T).softmax(-1)
                entropy = -(p_teacher * (p[j, :C_l] / known[j]).log()).sum()
                value = value + T**2 * known[j] / mean * entropy / (L * K * M)
    return value


def test_the_objective_is_its_definition() -> None:
    method, images = rkd(), batch()
    out = method(images, CLOCK)
    losses = method.loss(out, images, CLOCK)
    logits, teacher = out["logits"].double(), out["teacher"].double()
    ce = definitions.swapped(logits, definitions.targets(logits, images.labels, C_l, L, EPS), TAU)
    assert list(losses) == ["ce", "rkd"]
    definitions.assert_same(losses["ce"], ce)
    definitions.assert_same(losses["rkd"], 0.1 * distillation(logits, teacher))


def test_the_teacher_is_the_pretrained_network_and_stays_it() -> None:
    method, images = rkd(), batch()
    torch.manual_seed(5)
    other = rkd()
    weights = {
        key: torch.rand_like(value) if value.is_floating_point() else value
        for key, value in other.state_dict().items()
        if key.startswith(("encoder.", "h."))
    }
    taken = method.adopt(weights)
    assert {"encoder.block.0.weight", "h.prototypes", "teacher.h.prototypes"} <= set(taken)
    state = method.teacher.state_dict()
    assert all(torch.equal(state[key], value) for key, value in weights.items())
    method.train()
    total(method.loss(method(images, CLOCK), images, CLOCK)).backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is None for p in method.teacher.parameters())
    assert all(torch.equal(method.teacher.state_dict()[key], value) for key, value in weights.items())
    assert not torch.equal(
        method.encoder.state_dict()["block.1.running_mean"], weights["encoder.block.1.running_mean"]
    )


def test_weights_of_a_run_keep_the_teacher_that_it_had() -> None:
    first, second = rkd(), rkd()
    first.h.prototypes.data.neg_()
    second.adopt(first.state_dict())
    assert torch.equal(second.h.prototypes, -second.teacher.state_dict()["h.prototypes"])


def test_a_network_without_a_head_cannot_teach() -> None:
    encoder = {f"encoder.{key}": value for key, value in SmallEncoder().state_dict().items()}
    with pytest.raises(CheckpointError, match="not from the stage 'pretrain'"):
        rkd().adopt(encoder)


def test_clusters_are_counted_by_novel_class() -> None:
    method, features = RKD(SmallEncoder(), Task(2, 3), RKD.Config()), torch.rand(1, 5, SmallEncoder.dim)
    assert [head(features).shape[-1] for head in (method.h, method.g)] == [2, 3]


def test_without_distillation_no_teacher_is_asked() -> None:
    method, images = rkd(distillation=0.0), batch()
    out = method(images, CLOCK)
    assert set(out) == {"logits"}
    assert set(method.loss(out, images, CLOCK)) == {"ce"}


def test_scores_are_the_joint_logits_over_tau() -> None:
    method = rkd().eval()
    images = torch.rand(5, 3, 8, 8)
    z = method.encoder(images)
    for head in range(K):
        expected = torch.cat([method.h(z), method.g(z[None])[0, head]], -1) / TAU
        torch.testing.assert_close(method.scores(images)[head], expected)


@pytest.mark.parametrize("benchmark", ["cifar10", "cifar100-20", "cifar100-50"])
def test_values_are_those_of_uno(benchmark: str) -> None:
    flat, uno = recipe_for("rkd", benchmark).flat(), recipe_for("uno-v2", benchmark).flat()
    assert {key: flat[key] for key in flat.keys() & uno.keys()} == {
        key: uno[key] for key in flat.keys() & uno.keys()
    }
    assert (flat["distillation"], flat["temperature"], flat["heads"], flat["epochs"]) == (0.1, 4, 4, 500)
    whose = "newfound" if benchmark == "cifar10" else "published"
    assert method_entry("rkd").values_for(benchmark)[0] == whose


def relation_definition(student: Tensor, teacher: Tensor) -> Tensor:
    V, K, M, _ = student.shape
    C_l = teacher.shape[-1]
    value = student.new_zeros(())
    w = {(v, k, i): student[v, k, i].div(TAU * T).softmax(-1)[:C_l].sum() for v, k, i in np.ndindex(V, K, M)}
    mean = sum(w.values(), value) / len(w)
    for (v, k, i), weight in w.items():
        p_teacher = (teacher[v, i] / TAU / T).softmax(-1)
        log_p = (student[v, k, i, :C_l] / TAU / T).softmax(-1).log()
        value = value - T**2 * weight / mean * (p_teacher * log_p).sum() / (V * K * M)
    return value


@settings(max_examples=15, deadline=None)
@given(
    V=st.integers(1, 2),
    K=st.integers(1, 2),
    M=st.integers(1, 4),
    C_l=st.integers(1, 3),
    C_u=st.integers(1, 3),
    seed=st.integers(0, 2**16),
)
def test_value_and_gradient_are_the_definition(V: int, K: int, M: int, C_l: int, C_u: int, seed: int) -> None:
    torch.manual_seed(seed)
    student, teacher = torch.rand(V, K, M, C_l + C_u) * 2 - 1, torch.rand(V, M, C_l) * 2 - 1
    leaf, copy = student.clone().requires_grad_(), student.double().requires_grad_()
    loss, expected = relation_distillation(leaf, teacher, TAU, T), relation_definition(copy, teacher.double())
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    (gradient,) = torch.autograd.grad(loss, leaf)
    (wanted,) = torch.autograd.grad(expected, copy)
    torch.testing.assert_close(gradient.double(), wanted, rtol=1e-3, atol=1e-4)


def test_a_sample_that_looks_known_counts_for_more_and_learns_it_through_its_weight() -> None:
    """Only the novel logits differ between the two samples, and only weights see those."""
    student = torch.tensor([[0.5, -0.5, -1.0], [0.5, -0.5, 1.0]]).view(1, 1, 2, 3).requires_grad_()
    for wrong in (0, 1):
        teacher = torch.tensor([[1.0, -1.0], [1.0, -1.0]])
        teacher[wrong] = -teacher[wrong]
        loss = relation_distillation(student, teacher[None], TAU, T)
        (gradient,) = torch.autograd.grad(loss, student)
        # Looking less known pays for the sample that the teacher contradicts.
        assert gradient[0, 0, wrong, 2] < 0 < gradient[0, 0, 1 - wrong, 2]
        if wrong == 0:
            at_the_known = loss.item()
    assert at_the_known > loss.item()
