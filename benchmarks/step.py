"""The speed of our training step (the `Step` of a run) in each mode, and of the straightforward one."""

import gc
from collections.abc import Iterator, Sequence
from itertools import chain, count, islice, pairwise

import numpy as np
import torch

from benchmarks.baseline.iic import Network, TrainingStep, Weights
from benchmarks.baseline.loading import CropBatch, crop_loader, loading_ms, num_workers, steady_ms
from benchmarks.measure import Laps, Machine, count_flops, milliseconds
from benchmarks.record import BaselineSpeed, StepSpeed
from newfound.core.settings import Recipe
from newfound.data.dataset import Split
from newfound.data.loader import Draw, Loader
from newfound.engine.device import precision_name
from newfound.engine.evaluate import TrainingBank, Viewer
from newfound.engine.step import WARM_UP_STEPS, Mode, Step, learner_optimiser, set_learning_rate
from newfound.nn.encoders import build_encoder
from newfound.run.recipe import build_method, encoder_name, extra_loss, stage_loader

SPLIT_STEPS = 5
FIRST_STEPS = WARM_UP_STEPS + 5
"""The number of steps whose losses are compared between modes; some come after the capture of a graph."""
LEARNING_SHARE = 0.01
"""Share of the peak learning rate: the weights move, but rounding errors grow less than at the peak."""
TOLERANCE = 1e-3
"""The largest relative difference allowed between IIC's first losses; without updates it would be larger.

Other methods have no tolerance, because rounding can decide which images form a pair.
"""


def ready_step(recipe: Recipe, split: Split, machine: Machine, mode: Mode) -> Step:
    """A step of the discovery stage before its first epoch; frees the memory of earlier measurements."""
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
    """The FLOPs of the forward and backward pass, without augmentation."""
    step = ready_step(recipe, split, machine, "eager")
    batch = step.loader.batch(next(step.loader.draws(0)))
    return count_flops(lambda: step.backward(step.forward(batch)))


def step_speed(recipe: Recipe, split: Split, machine: Machine, mode: Mode, flops: int) -> StepSpeed:
    """Time whole steps and then their parts, unless a step is a single graph."""
    step = ready_step(recipe, split, machine, mode)
    pairs = _pairs(step.loader)
    losses = first_losses(step, pairs)
    ms = milliseconds(lambda: step(*next(pairs)), machine.device, machine.scale.seconds)
    whole = machine.speed(ms, step.loader.batch_size, flops)
    parts = None if step.mode == "graph" else _parts(step, (draw for draw, _ in pairs))
    return StepSpeed(
        **vars(whole),
        mode=step.mode,
        split_ms=parts,
        compile_seconds=step.take_compile_seconds(),
        first_losses=losses,
    )


def reference_losses(recipe: Recipe, split: Split, machine: Machine, mode: Mode) -> list[float]:
    """The first losses in a mode that is not timed."""
    step = ready_step(recipe, split, machine, mode)
    return first_losses(step, _pairs(step.loader))


def first_losses(step: Step, pairs: Iterator[tuple[Draw, Draw]]) -> list[float]:
    torch.manual_seed(0)  # some methods draw random numbers themselves
    return [_loss(step, *pair) for pair in islice(pairs, FIRST_STEPS)]


def _loss(step: Step, draw: Draw, following: Draw) -> float:
    """Train on a draw and return its loss."""
    step.reset(0)
    step(draw, following)
    return sum(value.mean().item() for value in step.sums.values())


def largest_difference(modes: Sequence[Sequence[float]]) -> float:
    """The largest relative difference of any mode's losses from those of the first mode."""
    losses = np.array(modes)
    return float((abs(losses[1:] - losses[0]) / abs(losses[0])).max(initial=0.0))  # NaN if any is


def _pairs(loader: Loader) -> Iterator[tuple[Draw, Draw]]:
    """Each draw and the one that follows it, epoch after epoch."""
    return pairwise(chain.from_iterable(loader.draws(epoch) for epoch in count()))


def _parts(step: Step, draws: Iterator[Draw]) -> dict[str, float]:
    """Milliseconds of each part of a step."""
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
    """Free the memory of earlier measurements, so that they do not count towards the next peak."""
    torch.compiler.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def baseline_speed(recipe: Recipe, split: Split, machine: Machine) -> BaselineSpeed:
    """Time the straightforward network on one batch, then its loader alone, then both together."""
    device, scale = machine.device, machine.scale
    batch_size = recipe.train["discover"].batch_size
    step, batch = _baseline_step(recipe, split, device), _one_batch(split, batch_size, device)
    flops = count_flops(lambda: step.backward(step.forward(*batch)))
    network_ms = milliseconds(lambda: step(*batch), device, scale.seconds)
    parts = {"augmentation": loading_ms(split, batch_size, scale.worker_rounds)}
    parts |= _baseline_parts(step, batch)
    ms = steady_ms(split, batch_size, scale.worker_rounds, step, device)
    return BaselineSpeed(
        **vars(machine.speed(ms, batch_size, flops)),
        network_ms=network_ms,
        split_ms=parts,
        precision=precision_name(machine.precision),
        workers=num_workers(),
    )


def _baseline_step(recipe: Recipe, split: Split, device: torch.device) -> TrainingStep:
    config, task = recipe.config, split.task
    encoder = build_encoder(encoder_name(recipe, split.look))
    network = Network(encoder, task, config.heads, config.overcluster, config.hidden, config.projection)
    weights = Weights.of(config, task.num_known)
    return TrainingStep(network.to(device), weights, recipe.train["discover"], device)


def _one_batch(split: Split, batch_size: int, device: torch.device) -> CropBatch:
    crops, labels = next(iter(crop_loader(split, batch_size, 1)))
    return [crop.to(device) for crop in crops], labels.to(device)


def _baseline_parts(step: TrainingStep, batch: CropBatch) -> dict[str, float]:
    laps = Laps(step.device)
    for _ in range(SPLIT_STEPS):
        laps.start()
        loss = step.forward(*batch)
        laps.lap("forward")
        step.backward(loss)
        laps.lap("backward")
        step.update()
        laps.lap("optimiser")
    return laps.milliseconds()
