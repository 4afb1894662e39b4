"""One training step: what it does to weights, sums and prototypes, in every mode a CPU has."""

import warnings
from collections.abc import Iterator
from copy import deepcopy
from itertools import islice

import pytest
import torch
import torch._dynamo.exc
from torch import Tensor

from newfound.core.errors import ran_out_of_memory
from newfound.core.learner import Method
from newfound.core.records import Clock, Losses, total
from newfound.core.settings import Recipe, TrainConfig
from newfound.data.dataset import Dataset
from newfound.data.loader import Draw, Loader
from newfound.engine.step import Mode, Step, learner_optimiser, set_learning_rate
from newfound.run.recipe import build_method
from tests.marks import NEEDS_COMPILER, SLOW
from tests.tiny import CPU, tiny_recipe

MOMENTUM, DECAY = 0.9, 1e-3
RECIPE = tiny_recipe("iic", heads=2, overcluster=2, small_crops=0, augmentation="weak")
"""IIC with two heads and two views."""


def stepping(
    data: Dataset,
    lr: float,
    mode: Mode = "eager",
    precision: torch.dtype = torch.float32,
    recipe: Recipe = RECIPE,
) -> tuple[Method, Step]:
    """A method in batches of 16, the same at each call."""
    method = build_method(recipe, data.split.task, data.split.look, CPU)
    train = TrainConfig(batch_size=16, augmentation="weak", momentum=MOMENTUM, weight_decay=DECAY)
    loader = Loader(
        data.split,
        method.views,
        train,
        uses=method.uses,
        seed=0,
        stage="discover",
        device=CPU,
    )
    optimiser = learner_optimiser(method, train)
    set_learning_rate(optimiser, lr)
    return method, Step(method, loader, optimiser, precision=precision, mode=mode)


def draws(step: Step, number: int) -> Iterator[Draw]:
    return islice(step.loader.draws(0), number)


def losses_of(method: Method, step: Step, draw: Draw) -> Losses:
    batch, clock = step.loader.batch(draw), Clock(torch.zeros(()))
    return method.loss(method(batch, clock), batch, clock)


def prototypes(method: Method) -> Iterator[Tensor]:
    return (p for name, p in method.named_parameters() if name.endswith("prototypes"))


def test_sums_are_what_the_losses_say(digits: Dataset) -> None:
    """With a learning rate of zero, so that every step sees the same weights."""
    method, step = stepping(digits, lr=0.0)
    expected: dict[str, list[Tensor]] = {}
    for draw in draws(step, 4):
        for name, value in losses_of(deepcopy(method), step, draw).items():
            expected.setdefault(name, []).append(value.detach())
        step(draw)
    assert set(step.sums) == set(expected) == {"ce", "over", "inter", "intra"}
    for name, values in expected.items():
        assert not step.sums[name].requires_grad
        torch.testing.assert_close(step.sums[name], torch.stack(values).sum(0), rtol=1e-5, atol=1e-5)
    step.reset(7)
    assert not any(value.any() for value in step.sums.values())
    assert step.clock.epoch.item() == 7


def test_a_step_is_sgd_by_hand(digits: Dataset) -> None:
    """v ← m v + (g + d w), w ← w - lr v, then prototypes to unit length; float32 agrees to 1e-6."""
    lr = 0.05
    method, step = stepping(digits, lr)
    mirror = deepcopy(method)
    velocity: dict[str, Tensor] = {}
    for draw in draws(step, 3):
        mirror.zero_grad()
        total(losses_of(mirror, step, draw)).backward()  # type: ignore[no-untyped-call]
        step(draw)
        with torch.no_grad():
            for name, p in mirror.named_parameters():
                assert p.grad is not None
                push = p.grad + DECAY * p
                velocity[name] = MOMENTUM * velocity[name] + push if name in velocity else push
                p.sub_(lr * velocity[name])
                if name.endswith("prototypes"):
                    p.div_(p.norm(dim=-1, keepdim=True))
    for name, p in method.named_parameters():
        torch.testing.assert_close(p, mirror.get_parameter(name), rtol=1e-5, atol=1e-6)


def test_prototypes_have_unit_length_after_every_step(digits: Dataset) -> None:
    method, step = stepping(digits, lr=0.5)
    for draw in draws(step, 4):
        before = [p.clone() for p in prototypes(method)]
        step(draw)
        for p, old in zip(prototypes(method), before, strict=True):
            assert not torch.equal(p, old)
            torch.testing.assert_close(p.norm(dim=-1), torch.ones(p.shape[:-1]))


def test_frozen_parameters_stay_as_they_are(digits: Dataset) -> None:
    method, step = stepping(digits, lr=0.5)
    method.encoder.requires_grad_(False)
    before = {name: p.clone() for name, p in method.named_parameters()}
    for draw in draws(step, 3):
        step(draw)
    changed = {name for name, p in method.named_parameters() if not torch.equal(p, before[name])}
    assert changed == {name for name in before if not name.startswith("encoder.")}


def test_gradients_are_gone_after_a_step(digits: Dataset) -> None:
    method, step = stepping(digits, lr=0.1)
    step(next(draws(step, 1)))
    assert all(p.grad is None for p in method.parameters())


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_half_precision_is_close_to_float32(digits: Dataset, precision: torch.dtype) -> None:
    """bf16 keeps 8 bits of a product; fp16 keeps 11 and scales its loss; the losses agree to 3 %."""
    sums = []
    for each in (torch.float32, precision):
        method, step = stepping(digits, lr=0.02, precision=each)
        for draw in draws(step, 4):
            step(draw)
        assert step.scaler.is_enabled() == (each == torch.float16)
        assert all(p.dtype == torch.float32 and torch.isfinite(p).all() for p in method.parameters())
        sums.append(step.sums)
    for name, value in sums[0].items():
        assert sums[1][name].dtype == torch.float32
        assert not torch.equal(value, sums[1][name])
        torch.testing.assert_close(value, sums[1][name], rtol=0.03, atol=0.01)


def test_fp16_leaves_out_a_step_whose_scaled_gradients_overflow(digits: Dataset) -> None:
    method, step = stepping(digits, lr=0.02, precision=torch.float16)
    step.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100)
    before = {name: p.clone() for name, p in method.named_parameters()}
    step(next(draws(step, 1)))
    for name, p in method.named_parameters():
        torch.testing.assert_close(p, before[name], rtol=0, atol=1e-6)
    assert step.scaler.get_scale() == 2.0**99


def test_learning_rate_is_set_in_place_where_it_is_a_tensor() -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    on_cpu, captured = (torch.optim.SGD([weight], lr=lr) for lr in (0.1, torch.tensor(0.1)))
    tensor = captured.param_groups[0]["lr"]
    for optimiser in (on_cpu, captured):
        set_learning_rate(optimiser, 0.25)
    assert on_cpu.param_groups[0]["lr"] == 0.25
    assert captured.param_groups[0]["lr"] is tensor
    assert tensor.item() == 0.25


@SLOW
@NEEDS_COMPILER
@pytest.mark.parametrize("name", ["iic", "openmix"])  # the latter draws random numbers itself
def test_compiled_is_eager(digits: Dataset, name: str) -> None:
    """Three steps with the same draws: losses and weights to 1e-4, as fused kernels add up in another order.

    Compiling takes most of a minute on one core.
    """
    recipe = RECIPE if name == "iic" else tiny_recipe(name)
    eager, first = stepping(digits, 0.05, recipe=recipe)
    compiled, second = stepping(digits, 0.05, "compiled", recipe=recipe)
    for number, draw in enumerate(draws(first, 3)):
        for step in (first, second):
            torch.manual_seed(number)
            step(draw)
    assert second.take_compile_seconds() > 0
    assert second.take_compile_seconds() == first.take_compile_seconds() == 0
    for name, value in first.sums.items():
        torch.testing.assert_close(second.sums[name], value, rtol=1e-4, atol=1e-4)
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(compiled.state_dict()[name], value, rtol=1e-4, atol=1e-4)


def test_hints_of_the_compiler_are_not_shown_and_all_else_is(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, step = stepping(digits, 0.1)
    hints = ("TensorFloat32 tensor cores for float32 ...", "\nOnline softmax is disabled on the fly ...")

    def warn(self: Step, draw: Draw) -> None:
        for message in (*hints, "a softmax of NaNs"):
            warnings.warn(message, UserWarning, stacklevel=1)

    monkeypatch.setattr(Step, "_train", warn)
    vars(step)["mode"] = "compiled"
    (draw,) = draws(step, 1)
    shown = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            step(draw)
        shown.append([str(each.message) for each in caught])
    assert shown == [["a softmax of NaNs"], [*hints, "a softmax of NaNs"]]
    assert torch.get_float32_matmul_precision() == "highest"


def refused_capture(step: Step, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bring a step to where it captures, which fails, and ending the capture then fails as well."""

    def refuse(*_: object) -> None:
        try:
            raise RuntimeError(why)
        finally:
            raise RuntimeError("the capture cannot be ended")

    monkeypatch.setattr("newfound.engine.step.StepGraph", refuse)
    step.mode, step._calls = "graph", 10
    vars(step)["_stream"] = None


def test_a_step_that_cannot_be_captured_runs_compiled(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, step = stepping(digits, 0.1)
    reference, expected = stepping(digits, 0.1)
    (draw,) = draws(step, 1)
    refused_capture(step, "operation not permitted when stream is capturing\nand more", monkeypatch)
    step(draw)
    expected(draw)
    assert vars(step)["mode"] == "compiled"
    (warning,) = caplog.messages
    assert "(operation not permitted when stream is capturing)" in warning
    for one, other in zip(step.learner.parameters(), reference.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_capture_that_runs_out_of_memory_is_no_fallback(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, step = stepping(digits, 0.1)
    refused_capture(step, "CUDA out of memory", monkeypatch)
    with pytest.raises(RuntimeError, match="CUDA out of memory") as caught:
        step(next(draws(step, 1)))
    assert ran_out_of_memory(caught.value)


@pytest.mark.slow
def test_a_backward_that_cannot_be_compiled_leaves_nothing_behind(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forward has moved the statistics of BatchNorm by then."""
    eager, usual = stepping(digits, 0.1)
    method, step = stepping(digits, 0.1, "compiled")
    step.prepare, step.forward = step.loader.batch, step._forward
    backward, calls = Tensor.backward, []

    def fail_first(tensor: Tensor, *arguments: object) -> None:
        calls.append(tensor)
        if len(calls) == 1:
            raise torch._dynamo.exc.TorchDynamoException("no kernel for this")
        backward(tensor)  # type: ignore[no-untyped-call]

    draw = next(draws(step, 1))
    usual(draw)
    monkeypatch.setattr(Tensor, "backward", fail_first)
    step(draw)
    assert step.mode == "eager"
    for key, value in eager.state_dict().items():
        assert torch.equal(value, method.state_dict()[key]), key
