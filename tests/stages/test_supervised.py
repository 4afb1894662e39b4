"""Supervised pretraining against its definition as loops."""

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from newfound.core.learner import NoSettings
from newfound.core.records import Batch, Clock, Task, Views
from newfound.core.registry import stage_class
from newfound.nn.encoders.small import SmallEncoder
from newfound.stages.supervised import Known, Supervised, view_cross_entropy

CLOCK = Clock(torch.zeros(()))


def stage() -> Supervised:
    torch.manual_seed(0)
    return Supervised(SmallEncoder(), Task(3, 2), Supervised.Config())


def test_loss_is_its_definition() -> None:
    """CE with temperature 0.1, mean over two views and the batch; float32 logits / tau reach 10."""
    torch.manual_seed(0)
    known = (torch.rand(2, 5, 3) * 2 - 1).requires_grad_()
    copy = known.detach().double().requires_grad_()
    labels = torch.tensor([0, 2, 1, 1, 0])
    batch = Batch((torch.zeros(2, 5, 3, 1, 1),), labels, torch.arange(5))
    losses = stage().loss({"known": known}, batch, CLOCK)
    expected = torch.zeros((), dtype=torch.float64)
    for v in range(2):
        for i in range(5):
            scaled = copy[v, i] / 0.1
            expected = expected - (scaled[labels[i]] - scaled.logsumexp(0)) / 10
    assert list(losses) == ["ce"]
    torch.testing.assert_close(losses["ce"].double(), expected, rtol=1e-5, atol=1e-6)
    (gradient,), (wanted,) = (
        torch.autograd.grad(loss, leaf) for loss, leaf in ((losses["ce"], known), (expected, copy))
    )
    torch.testing.assert_close(gradient.double(), wanted, rtol=1e-4, atol=1e-6)


def test_forward_is_the_cosine_head_on_each_view() -> None:
    learner = stage().eval()
    views = torch.rand(2, 4, 3, 8, 8)
    out = learner(Batch((views,), torch.zeros(4, dtype=torch.int64), torch.arange(4)), CLOCK)
    for v in range(2):
        for i in range(4):
            z = learner.encoder(views[v, i : i + 1])[0]
            for c in range(3):
                prototype = learner.h.prototypes[c]
                cosine = (z @ prototype) / (z.norm() * prototype.norm())
                torch.testing.assert_close(out["known"][v, i, c], cosine, rtol=1e-4, atol=1e-5)


def test_it_is_the_stage_called_pretrain_and_sees_two_views_of_labelled_images() -> None:
    assert stage_class("pretrain") is Supervised
    assert Supervised.uses == "labelled"
    assert stage().views == Views(large=2, small=0)


def test_prototypes_have_unit_length_after_a_step() -> None:
    learner = stage()
    learner.h.prototypes.data.mul_(7)
    learner.after_step()
    torch.testing.assert_close(learner.h.prototypes.norm(dim=-1), torch.ones(3))


def test_known_is_cross_entropy_and_a_frozen_trunk_gets_no_gradient() -> None:
    torch.manual_seed(0)
    learner = Known(SmallEncoder(), Task(3, 2), NoSettings())
    learner.encoder.freeze_trunk()
    learner.eval()
    images, labels = torch.rand(4, 3, 8, 8), torch.tensor([0, 2, 1, 1])
    batch, clock = Batch((images[None],), labels, torch.arange(4)), Clock(torch.zeros(()))
    loss = learner.loss(learner(batch, clock), batch, clock)["ce"]
    torch.testing.assert_close(loss, F.cross_entropy(learner.h(learner.encoder(images)), labels))
    loss.backward()  # type: ignore[no-untyped-call]
    trained = {name for name, p in learner.named_parameters() if p.grad is not None}
    assert trained == {
        "encoder.block.0.weight",
        "encoder.block.1.weight",
        "encoder.block.1.bias",
        "h.weight",
        "h.bias",
    }


@settings(max_examples=15, deadline=None)
@given(V=st.integers(1, 3), B=st.integers(1, 4), C=st.integers(1, 5), seed=st.integers(0, 2**16))
def test_view_cross_entropy_is_the_definition(V: int, B: int, C: int, seed: int) -> None:
    torch.manual_seed(seed)
    logits = (torch.rand(V, B, C) * 2 - 1).requires_grad_()
    labels = torch.randint(C, (B,))
    copy = logits.detach().double().requires_grad_()
    rows = [
        (copy[v, i] / 0.1).exp().sum().log() - copy[v, i, int(labels[i])] / 0.1
        for v in range(V)
        for i in range(B)
    ]
    expected = torch.stack(rows).mean()
    loss = view_cross_entropy(logits, labels, 0.1)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    (grad,) = torch.autograd.grad(loss, logits)
    (expected_grad,) = torch.autograd.grad(expected, copy)
    torch.testing.assert_close(grad.double(), expected_grad, rtol=1e-4, atol=1e-5)


def test_extreme_logits_stay_finite() -> None:
    logits = torch.tensor([[[1.0, -1.0]]], requires_grad=True)
    loss = view_cross_entropy(logits, torch.tensor([1]), 0.001)
    torch.testing.assert_close(loss, torch.tensor(2000.0))
