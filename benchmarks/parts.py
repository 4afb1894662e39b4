"""Measure one part after another and collect the results in one record."""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

from benchmarks.baseline.iic import baseline_precision
from benchmarks.discover import discover_times
from benchmarks.embed import embed_memory, embed_speed
from benchmarks.inter import inter_rows
from benchmarks.kmeans import kmeans_speed
from benchmarks.measure import Machine, measured_machine, milliseconds
from benchmarks.record import (
    BaselineSpeed,
    DiscoverTime,
    EmbedMemory,
    EmbedSpeed,
    Evaluation,
    InterRow,
    KMeansSpeed,
    MatrixProduct,
    MethodSpeed,
    Record,
    ReferenceLosses,
    Steps,
    StepSpeed,
    Terms,
)
from benchmarks.setup import FULL, Setup, noise_split, noise_truth
from benchmarks.step import (
    TOLERANCE,
    baseline_speed,
    largest_difference,
    reference_losses,
    release,
    step_flops,
    step_speed,
)
from benchmarks.terms import term_ratios
from newfound.core.registry import method_names, recipe_for
from newfound.engine.device import precision_name
from newfound.engine.evaluate import Evaluator, Viewer
from newfound.run.provenance import provenance
from newfound.run.recipe import build_method

log = logging.getLogger(__name__)


def measure(setup: Setup) -> Iterator[Record]:
    """Measure every part of the setup; each record holds everything measured so far."""
    start = time.perf_counter()
    log.info("%s: matrix product", setup.device.type)
    machine = measured_machine(setup.device, setup.precision, setup.scale)
    record = _empty_record(setup, machine)
    for part in setup.parts:
        for found in MEASURES[part](setup, machine):
            record = record.model_copy(update={part: found, "seconds": time.perf_counter() - start})
            yield _compared(record)


def _empty_record(setup: Setup, machine: Machine) -> Record:
    where = provenance(setup.device)
    return Record(
        record="bench",
        method=setup.recipe.method,
        benchmark=setup.benchmark,
        images="uniform random pixels of the benchmark's shape",
        config={**setup.step_recipe.flat()},
        commit=where.commit,
        versions=where.versions,
        hardware=where.hardware,
        device=setup.device.type,
        precision=precision_name(machine.precision),
        matrix_product=MatrixProduct(side=machine.scale.matrix_side, tflops=machine.product_tflops),
        seconds=0.0,
    )


def _compared(record: Record) -> Record:
    """The record with the straightforward step compared with ours, if it has both."""
    if record.step is None or record.baseline is None:
        return record
    ratios = {mode: record.baseline.ms / each.ms for mode, each in record.step.modes.items()}
    baseline = record.baseline.model_copy(update={"times_as_long": ratios})
    return record.model_copy(update={"baseline": baseline})


def _step(setup: Setup, machine: Machine) -> Iterator[Steps]:
    recipe = setup.step_recipe
    split = setup.split(recipe)
    flops = step_flops(recipe, split, machine)
    modes: dict[str, StepSpeed] = {}
    for mode in setup.modes:
        log.info("step: %s%s", mode, "" if mode == "eager" else " (compiles for one to two minutes)")
        speed = step_speed(recipe, split, machine, mode, flops)
        modes[mode if speed.mode == mode else f"{mode}, ran {speed.mode}"] = speed
        difference = largest_difference([each.first_losses for each in modes.values()])
        yield Steps(
            batch_size=recipe.train["discover"].batch_size,
            flops=flops,
            largest_loss_difference=difference,
            modes=dict(modes),
        )
    if len(modes) > 1:
        tolerance = f" (tolerance {TOLERANCE:g})" if recipe.method == "iic" else ""
        log.info("step: largest difference between the first losses %.1g%s", difference, tolerance)


def _methods(setup: Setup, machine: Machine) -> Iterator[dict[str, MethodSpeed]]:
    """Time every method's step, if it has one, in the last mode; compare its losses with the first mode's."""
    found: dict[str, MethodSpeed] = {}
    reference, mode = setup.modes[0], setup.modes[-1]
    shared = {**setup.scale.step, **asdict(setup.step_recipe.run)}
    for name in method_names():
        recipe = recipe_for(name, setup.benchmark, shared)
        train = recipe.train["discover"]
        if train.epochs == 0:
            continue
        log.info("methods: %s, %s", name, mode)
        split = setup.split(recipe)
        speed = step_speed(recipe, split, machine, mode, step_flops(recipe, split, machine))
        row = MethodSpeed(config={**recipe.flat()}, batch_size=train.batch_size, **vars(speed))
        if reference != mode:
            losses = reference_losses(recipe, split, machine, reference)
            compared = {
                "reference": ReferenceLosses(mode=reference, first_losses=losses),
                "largest_loss_difference": largest_difference([losses, row.first_losses]),
            }
            row = row.model_copy(update=compared)
        found = {**found, name: row}
        yield found


def _baseline(setup: Setup, machine: Machine) -> Iterator[BaselineSpeed]:
    log.info("baseline: the straightforward step")
    own = measured_machine(machine.device, baseline_precision(machine.device), machine.scale)
    release(machine.device)
    yield baseline_speed(setup.step_recipe, setup.split(setup.step_recipe), own)


def _terms(setup: Setup, machine: Machine) -> Iterator[Terms]:
    log.info("terms: augmentation, Sinkhorn and losses")
    yield term_ratios(setup.recipe, setup.split(setup.recipe), machine)


def _inter(setup: Setup, machine: Machine) -> Iterator[list[InterRow]]:
    log.info("inter: closed form, matrix product and loops")
    release(machine.device)
    yield inter_rows(machine)


def _evaluation(setup: Setup, machine: Machine) -> Iterator[Evaluation]:
    """Time both protocols on random images, a fifth of them test images."""
    images, task, look, device = machine.scale.evaluation_images, setup.task, setup.look, machine.device
    log.info("evaluation: %s images", f"{images:,}")
    split = noise_split(task, look, task.num_known, images - images // 5, device)
    method = build_method(setup.step_recipe, task, look, device)
    viewer = Viewer(method, look, device, machine.precision)
    evaluator = Evaluator(method, viewer, split.unlabelled, noise_truth(split, images // 5, device))
    ms = milliseconds(lambda: evaluator(0), device, machine.scale.seconds)
    yield Evaluation(images=images, seconds=ms / 1000, images_per_second=1000 * images / ms)


def _kmeans(setup: Setup, machine: Machine) -> Iterator[KMeansSpeed]:
    # At full size it takes minutes on a CPU, which is acceptable if nothing else is measured.
    size = FULL.kmeans if setup.parts == ("kmeans",) else machine.scale.kmeans
    log.info("kmeans: %s samples of %d features, ours and scikit-learn's", f"{size[0]:,}", size[1])
    yield from kmeans_speed(size, machine.device)


def _embed(setup: Setup, machine: Machine) -> Iterator[dict[str, EmbedSpeed]]:
    log.info("embed: JPEG files, ours and a plain loop")
    yield from embed_speed(machine)


def _memory(setup: Setup, machine: Machine) -> Iterator[list[EmbedMemory]]:
    # Full size only if measured alone, as for k-means.
    numbers = FULL.embed_memory if setup.parts == ("memory",) else machine.scale.embed_memory
    log.info("memory: newfound embed on %s files", " and ".join(f"{number:,}" for number in numbers))
    yield from embed_memory(numbers)


def _discover(setup: Setup, machine: Machine) -> Iterator[list[DiscoverTime]]:
    # Full size only if measured alone, as for k-means.
    size = FULL.discover if setup.parts == ("discover",) else machine.scale.discover
    log.info("discover: whole calls, from vectors and from photographs")
    yield from discover_times(size)


MEASURES: dict[str, Callable[[Setup, Machine], Iterator[object]]] = {
    "step": _step,
    "baseline": _baseline,
    "terms": _terms,
    "inter": _inter,
    "evaluation": _evaluation,
    "kmeans": _kmeans,
    "methods": _methods,
    "embed": _embed,
    "memory": _memory,
    "discover": _discover,
}
