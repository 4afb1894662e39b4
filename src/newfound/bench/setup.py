"""What a call of `newfound bench` asks for, checked before anything is measured."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import cast, get_args

import torch

from newfound.bench.baseline.measure import check_baseline, unlike_baseline
from newfound.bench.noise import benchmark_shape
from newfound.bench.scale import Scale, scale_for
from newfound.core.config import Overrides, Recipe, RunConfig, override
from newfound.core.errors import UsageError, unknown
from newfound.core.records import Task
from newfound.core.registry import recipe_for
from newfound.data.images import Look
from newfound.engine.device import resolve_device, resolve_mode, resolve_precision
from newfound.engine.step import Mode

MODES: tuple[Mode, ...] = get_args(Mode)
PARTS = ("step", "baseline", "terms", "inter", "evaluation", "kmeans")
ON_REQUEST = ("methods",)
"""Parts that take too long to be measured unasked."""
STRAIGHTFORWARD = ("baseline", "terms")
"""The parts that compare with the straightforward step."""


@dataclass(frozen=True)
class Setup:
    """What is measured, and on what."""

    recipe: Recipe
    """At full size."""
    step_recipe: Recipe
    """At the size of the scale."""
    benchmark: str
    task: Task
    look: Look
    device: torch.device
    precision: torch.dtype
    scale: Scale
    modes: tuple[Mode, ...]
    parts: tuple[str, ...]


def checked_setup(
    method: str, benchmark: str, settings: Overrides, modes: Sequence[str] = (), parts: Sequence[str] = ()
) -> Setup:
    """Resolve every name and setting; without modes or parts, all that can be measured here."""
    recipe = recipe_for(method, benchmark, settings)
    device = resolve_device(recipe.run.device)
    precision = resolve_precision(recipe.run.precision, device)
    scale, (task, look) = scale_for(device), benchmark_shape(benchmark)
    small = {key: value for key, value in scale.step.items() if key not in settings}
    _check_trains(recipe)
    if "methods" in parts:
        _check_shared(settings)
    return Setup(
        recipe,
        override(recipe, small),
        benchmark,
        task,
        look,
        device,
        precision,
        scale,
        _modes(modes, device, precision),
        _parts(parts, recipe, look),
    )


def _modes(wanted: Sequence[str], device: torch.device, precision: torch.dtype) -> tuple[Mode, ...]:
    for name in wanted:
        if name not in MODES:
            raise unknown("mode", name, MODES, f"the modes are {', '.join(MODES)}")
        resolve_mode(name, device, precision, steps=0)
    if not wanted and device.type == "cpu":  # where a compilation takes longer than all the rest
        return ("eager",)
    usual = MODES if precision != torch.float16 else MODES[:-1]
    return cast(tuple[Mode, ...], tuple(wanted)) or usual


def _parts(wanted: Sequence[str], recipe: Recipe, look: Look) -> tuple[str, ...]:
    every = (*PARTS, *ON_REQUEST)
    for name in wanted:
        if name not in every:
            raise unknown("part", name, every, f"the parts are {', '.join(every)}")
        if name in STRAIGHTFORWARD:
            check_baseline(recipe, look, name)
    if wanted:
        return tuple(part for part in every if part in wanted)
    comparable = unlike_baseline(recipe, look) is None
    return tuple(part for part in PARTS if comparable or part not in STRAIGHTFORWARD)


def _check_trains(recipe: Recipe) -> None:
    if recipe.train["discover"].epochs == 0:
        raise UsageError(
            f"a method to measure must train in discovery; got {recipe.method} without an epoch there; try "
            "iic with its own epochs"
        )


def _check_shared(settings: Overrides) -> None:
    shared = {field.name for field in fields(RunConfig)}
    if own := [key for key in settings if key not in shared]:
        raise UsageError(
            "settings for part methods must be of the run, such as device or precision, for every method is "
            f"measured with its own; got {', '.join(own)}; leave that out"
        )
