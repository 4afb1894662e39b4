"""Our training step in each of its modes: the same `Step` that a run calls."""

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice, pairwise

import numpy as np
import torch

from newfound.bench.clock import Laps, milliseconds
from newfound.bench.flops import count_flops
from newfound.bench.machine import Machine
from newfound.bench.speed import Speed, speed
from newfound.core.config import Recipe
from newfound.data.images import Split
from newfound.data.loader import Draw, Loader
from newfound.engine.bank import TrainingBank, Viewer
from newfound.engine.step import WARM_UP_STEPS, Mode, Step, learner_optimiser, set_learning_rate
from newfound.experiment.model import build_method
from newfound.experiment.plugin import extra_loss
from newfound.experiment.run import stage_loader

SPLIT_STEPS = 5
FIRST_STEPS = WARM_UP_STEPS + 5
"""Whose losses are compared between the modes: some of them after the capture."""
LEARNING_SHARE = 0.01
"""Of the peak learning rate: the weights move, but what is rounded does not grow, as it does at the peak."""
TOLERANCE = 1e-3
"""How far IIC's first losses may be apart, relatively: less than if the weights were not updated.

That is not asked of all methods: which images are a pair can hang on rounding.
"""


@dataclass(frozen=True)
class StepSpeed(Speed):
    """Of one mode."""

    mode: Mode
    """The one that ran: what cannot be compiled or captured does without."""
    split_ms: dict[str, float] | None
    """The parts, measured apart: each waits for the device, so they add up to more than `ms`."""
    compile_seconds: float
    first_losses: list[float]
    """Of the first steps, from the same weights and draws in every mode."""


def ready_step(recipe: Recipe, split: Split, machine: Machine, mode: Mode) -> Step:
    """A step of the method's own stage, as it is before the first epoch; what was before it is forgotten."""
    release(machine.device)
    device, precision, train = machine.device, machine.precision, recipe.train["discover"]
    method = build_method(recipe, split.task, split.look, device)
    loader = stage_loader("discover", method, recipe, split, device)
    optimiser = learner_optimiser(method, train)
    set_learning_rate(optimiser, LEARNING_SHARE * train.lr)
    method.begin(TrainingBank(Viewer(method, split.look, device, precision), split))
    method.after_step()
    method.train()
    extra = extra_loss(recipe.constraints, split.task)
    return Step(method, loader, optimiser, precision=precision, mode=mode, extra=extra)


def step_flops(recipe: Recipe, split: Split, machine: Machine) -> int:
    """The arithmetic of forward and backward; that of the augmentation is left out."""
    step = ready_step(recipe, split, machine, "eager")
    batch = step.loader.batch(next(step.loader.draws(0)))
    return count_flops(lambda: step.backward(step.forward(batch)))


def step_speed(recipe: Recipe, split: Split, machine: Machine, mode: Mode, flops: int) -> StepSpeed:
    """Time whole steps, then, unless they are one graph, their parts."""
    step = ready_step(recipe, split, machine, mode)
    pairs = _pairs(step.loader)
    losses = first_losses(step, pairs)
    ms = milliseconds(lambda: step(*next(pairs)), machine.device, machine.scale.seconds)
    whole = speed(ms, step.loader.batch_size, flops, machine)
    parts = None if step.mode == "graph" else _parts(step, (draw for draw, _ in pairs))
    compiling = step.take_compile_seconds()
    return StepSpeed(
        **vars(whole), mode=step.mode, split_ms=parts, compile_seconds=compiling, first_losses=losses
    )


def reference_losses(recipe: Recipe, split: Split, machine: Machine, mode: Mode) -> list[float]:
    """The first losses of a mode that is not timed."""
    step = ready_step(recipe, split, machine, mode)
    return first_losses(step, _pairs(step.loader))


def first_losses(step: Step, pairs: Iterator[tuple[Draw, Draw]]) -> list[float]:
    torch.manual_seed(0)  # some methods draw random numbers themselves
    return [_loss(step, *pair) for pair in islice(pairs, FIRST_STEPS)]


def _loss(step: Step, draw: Draw, following: Draw) -> float:
    """Train on a draw and say what its loss was."""
    step.reset(0)
    step(draw, following)
    return sum(value.mean().item() for value in step.sums.values())


def largest_difference(modes: Sequence[Sequence[float]]) -> float:
    """How far the first losses of any mode are from those of the first mode, relatively."""
    losses = np.array(modes)
    return float((abs(losses[1:] - losses[0]) / abs(losses[0])).max(initial=0.0))  # NaN, if there is one


def _pairs(loader: Loader) -> Iterator[tuple[Draw, Draw]]:
    """Each draw and the one that follows it, epoch after epoch."""
    return pairwise(chain.from_iterable(loader.draws(epoch) for epoch in count()))


def _parts(step: Step, draws: Iterator[Draw]) -> dict[str, float]:
    """What a step does, one part after the other, in milliseconds."""
    laps = Laps(step.device)
    for draw in islice(draws, SPLIT_STEPS):
        laps.start()
        batch = step.prepare(draw)
        laps.lap("augmentation")
        losses = step.forward(batch)
        laps.lap("forward")
        step.backward(losses)
        laps.lap("backward")
        step.update(losses)
        laps.lap("optimiser")
    return laps.milliseconds()


def release(device: torch.device) -> None:
    """Forget what was measured before, so that the next peak is the next thing's own."""
    torch.compiler.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
