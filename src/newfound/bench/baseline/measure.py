"""How fast the straightforward step is: its loader alone, its network alone, both together."""

from dataclasses import dataclass

import torch

from newfound.bench.baseline.loading import CropBatch, crop_loader, loading_ms, num_workers, steady_ms
from newfound.bench.baseline.network import Network
from newfound.bench.baseline.training import TrainingStep, loss_weights
from newfound.bench.clock import Laps, milliseconds
from newfound.bench.flops import count_flops
from newfound.bench.machine import Machine
from newfound.bench.speed import Speed, speed
from newfound.core.config import Recipe
from newfound.core.errors import UsageError
from newfound.data.images import Look, Split
from newfound.engine.device import precision_name
from newfound.experiment.model import encoder_name
from newfound.methods.iic import IIC
from newfound.nn.encoders import build_encoder

SPLIT_STEPS = 5


@dataclass(frozen=True)
class BaselineSpeed(Speed):
    """Of the straightforward step, its loader at work beside it."""

    network_ms: float
    """A step on one batch again and again: without the loader."""
    split_ms: dict[str, float]
    """The parts, measured apart; `augmentation` is a batch of the loader alone."""
    precision: str
    workers: int


def unlike_baseline(recipe: Recipe, look: Look) -> str | None:
    """Why the straightforward step would not compute what the recipe's does; None when it does."""
    config = recipe.config
    if not isinstance(config, IIC.Config):
        return f"method {recipe.method}"
    if look.kind != "cifar":
        return f"images of kind {look.kind}"
    wanted = IIC.Config()
    for key in ("intra", "intra_norm", "large_crops", "small_crops"):
        if getattr(config, key) != getattr(wanted, key):
            return f"{key}={getattr(config, key)}"
    augmentation = recipe.train["discover"].augmentation
    return None if augmentation == "v2" else f"augmentation={augmentation}"


def check_baseline(recipe: Recipe, look: Look, part: str) -> None:
    if reason := unlike_baseline(recipe, look):
        raise UsageError(
            f"part {part} must be measured with IIC's published step on CIFAR-sized images, which is what it "
            f"has a straightforward version of; got {reason}; leave the part out"
        )


def baseline_speed(recipe: Recipe, split: Split, machine: Machine) -> BaselineSpeed:
    """Time the network on one batch, then the loader alone, then both."""
    device, scale = machine.device, machine.scale
    batch_size = recipe.train["discover"].batch_size
    step, batch = _training_step(recipe, split, device), _one_batch(split, batch_size, device)
    flops = count_flops(lambda: step.backward(step.forward(*batch)))
    network_ms = milliseconds(lambda: step(*batch), device, scale.seconds)
    parts = {"augmentation": loading_ms(split, batch_size, scale.worker_rounds), **_parts(step, batch)}
    ms = steady_ms(split, batch_size, scale.worker_rounds, step, device)
    whole = speed(ms, batch_size, flops, machine)
    return BaselineSpeed(
        **vars(whole),
        network_ms=network_ms,
        split_ms=parts,
        precision=precision_name(machine.precision),
        workers=num_workers(),
    )


def _training_step(recipe: Recipe, split: Split, device: torch.device) -> TrainingStep:
    config, task = recipe.config, split.task
    encoder = build_encoder(encoder_name(recipe, split.look))
    network = Network(encoder, task, config.heads, config.overcluster, config.hidden, config.projection)
    weights = loss_weights(config, task.num_known)
    return TrainingStep(network.to(device), weights, recipe.train["discover"], device)


def _one_batch(split: Split, batch_size: int, device: torch.device) -> CropBatch:
    crops, labels = next(iter(crop_loader(split, batch_size, 1)))
    return [crop.to(device) for crop in crops], labels.to(device)


def _parts(step: TrainingStep, batch: CropBatch) -> dict[str, float]:
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
