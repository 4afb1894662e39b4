"""One benchmark from beginning to end, as a record for results/bench/."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from newfound.bench.baseline.measure import baseline_speed
from newfound.bench.baseline.training import usual_precision
from newfound.bench.evaluation import evaluation
from newfound.bench.inter import inter_comparison
from newfound.bench.kmeans import kmeans_comparison
from newfound.bench.machine import Machine, measured_machine
from newfound.bench.noise import noise_split
from newfound.bench.scale import FULL
from newfound.bench.setup import Setup
from newfound.bench.step import (
    TOLERANCE,
    StepSpeed,
    largest_difference,
    reference_losses,
    release,
    step_flops,
    step_speed,
)
from newfound.bench.terms import term_comparison
from newfound.core.config import Recipe
from newfound.core.records import Say
from newfound.core.registry import method_names, recipe_for
from newfound.data.images import Split
from newfound.engine.device import precision_name
from newfound.experiment.provenance import provenance

EPOCH_STEPS = 20
"""Batches in the set of random images that is trained on."""


def bench_records(setup: Setup, say: Say) -> Iterator[dict[str, Any]]:
    """Measure every part that is asked for; each record holds all that was measured so far."""
    start = time.perf_counter()
    say(f"{setup.device.type}: the rate of a matrix product")
    machine = measured_machine(setup.device, setup.precision, setup.scale)
    parts: dict[str, Any] = {}
    for part in setup.parts:
        for found in _MEASURES[part](setup, machine, say):
            parts[part] = found
            yield _record(setup, machine, parts, time.perf_counter() - start)


def _record(setup: Setup, machine: Machine, parts: dict[str, Any], seconds: float) -> dict[str, Any]:
    if "step" in parts and "baseline" in parts:
        ms = parts["baseline"]["ms"]
        parts["baseline"]["times_as_long"] = {
            mode: ms / each["ms"] for mode, each in parts["step"]["modes"].items()
        }
    return {
        "record": "bench",
        "method": setup.recipe.method,
        "benchmark": setup.benchmark,
        "images": "uniform random pixels of the benchmark's shape",
        "config": setup.step_recipe.flat(),
        **provenance(setup.device),
        "device": setup.device.type,
        "precision": precision_name(machine.precision),
        "matrix_product": {"side": machine.scale.matrix_side, "tflops": machine.product_tflops},
        **parts,
        "seconds": seconds,
    }


def _split(setup: Setup, recipe: Recipe) -> Split:
    """Random images for a few steps, the known and the novel in proportion to their classes."""
    number = max(EPOCH_STEPS * recipe.train["discover"].batch_size, setup.task.num_classes)
    known = number * setup.task.num_known // setup.task.num_classes
    return noise_split(setup.task, setup.look, known, number - known, setup.device)


def _step(setup: Setup, machine: Machine, say: Say) -> Iterator[dict[str, Any]]:
    recipe = setup.step_recipe
    split = _split(setup, recipe)
    flops = step_flops(recipe, split, machine)
    modes: dict[str, StepSpeed] = {}
    for mode in setup.modes:
        say(f"step: {mode}" + ("" if mode == "eager" else ", which compiles for one to two minutes"))
        way = step_speed(recipe, split, machine, mode, flops)
        modes[mode if way.mode == mode else f"{mode}, ran {way.mode}"] = way
        difference = largest_difference([each.first_losses for each in modes.values()])
        yield {
            "batch_size": recipe.train["discover"].batch_size,
            "flops": flops,
            "largest_loss_difference": difference,
            "modes": {mode: asdict(way) for mode, way in modes.items()},
        }
    if len(modes) > 1:
        allowed = f"; {TOLERANCE:g} is allowed" * (recipe.method == "iic")
        say(f"step: the modes' first losses differ by {difference:.1g} at most{allowed}")


def _methods(setup: Setup, machine: Machine, say: Say) -> Iterator[dict[str, Any]]:
    """The step of every method that has one, in the last of the modes and compared with the first."""
    found, reference, mode = {}, setup.modes[0], setup.modes[-1]
    shared = {**setup.scale.step, **asdict(setup.step_recipe.run)}
    for name in method_names():
        recipe = recipe_for(name, setup.benchmark, shared)
        train = recipe.train["discover"]
        if train.epochs == 0:
            continue
        say(f"methods: {name}, {mode}")
        split = _split(setup, recipe)
        way = step_speed(recipe, split, machine, mode, step_flops(recipe, split, machine))
        found[name] = {"config": recipe.flat(), "batch_size": train.batch_size, **asdict(way)}
        if reference != mode:
            losses = reference_losses(recipe, split, machine, reference)
            found[name] |= _comparison(reference, losses, way)
        yield found


def _comparison(mode: str, losses: list[float], way: StepSpeed) -> dict[str, Any]:
    """How far the losses of a measured way are from those of another mode."""
    difference = largest_difference([losses, way.first_losses])
    return {"reference": {"mode": mode, "first_losses": losses}, "largest_loss_difference": difference}


def _baseline(setup: Setup, machine: Machine, say: Say) -> Iterator[dict[str, Any]]:
    say("baseline: the straightforward step")
    own = measured_machine(machine.device, usual_precision(machine.device), machine.scale)
    release(machine.device)
    yield asdict(baseline_speed(setup.step_recipe, _split(setup, setup.step_recipe), own))


def _terms(setup: Setup, machine: Machine, say: Say) -> Iterator[dict[str, Any]]:
    say("terms: augmentation, Sinkhorn and losses")
    batch_size = setup.recipe.train["discover"].batch_size
    compared = term_comparison(setup.recipe, _split(setup, setup.recipe), machine)
    yield {"batch_size": batch_size, **compared}


def _inter(setup: Setup, machine: Machine, say: Say) -> Iterator[list[dict[str, Any]]]:
    say("inter: closed form, matrix product and loops")
    release(machine.device)
    yield inter_comparison(machine)


def _evaluation(setup: Setup, machine: Machine, say: Say) -> Iterator[dict[str, Any]]:
    say(f"evaluation: {machine.scale.evaluation_images:,} images")
    yield evaluation(setup.step_recipe, setup.task, setup.look, machine)


def _kmeans(setup: Setup, machine: Machine, say: Say) -> Iterator[dict[str, Any]]:
    # Asked for alone it may take minutes, on a CPU too.
    size = FULL.kmeans if setup.parts == ("kmeans",) else machine.scale.kmeans
    say(f"kmeans: {size[0]:,} samples of {size[1]} features, ours and scikit-learn's")
    yield from kmeans_comparison(size, machine.device)


_MEASURES: dict[str, Callable[[Setup, Machine, Say], Iterator[Any]]] = {
    "step": _step,
    "baseline": _baseline,
    "terms": _terms,
    "inter": _inter,
    "evaluation": _evaluation,
    "kmeans": _kmeans,
    "methods": _methods,
}
