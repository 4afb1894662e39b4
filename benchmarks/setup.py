"""What to measure: settings, sizes and random images, checked before anything is measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import cast, get_args

import torch

from newfound.core.errors import UsageError, unknown
from newfound.core.records import Task
from newfound.core.registry import recipe_for
from newfound.core.seed import generator
from newfound.core.settings import Overrides, Recipe, RunConfig, override
from newfound.data.benchmarks import find_benchmark
from newfound.data.dataset import Look, Split, Truth
from newfound.data.images import ResidentImages
from newfound.engine.device import resolve_device, resolve_mode, resolve_precision
from newfound.engine.step import Mode
from newfound.methods.iic import IIC

MODES: tuple[Mode, ...] = get_args(Mode)
PARTS = ("step", "baseline", "terms", "inter", "evaluation", "kmeans")
ON_REQUEST = ("methods", "embed", "memory", "discover")
"""Parts that are measured only on request, because they take long or need optional packages."""
BASELINE_PARTS = ("baseline", "terms")
"""The parts that compare with the straightforward step."""
EPOCH_STEPS = 20
"""The number of batches in an epoch of random training images."""


@dataclass(frozen=True)
class Scale:
    """How much to measure: everything on a GPU, what takes a minute on two CPU cores."""

    seconds: float
    """The time to spend on each measurement."""
    worker_rounds: int
    """Batches that every loader worker makes while it is timed."""
    evaluation_images: int
    inter_samples: tuple[int, ...]
    """N = M of the inter-class term."""
    inter_classes: tuple[int, ...]
    loops_up_to: int
    """The largest N = M at which the inter-class term is also computed by nested loops."""
    matrix_side: int
    """The size of the matrix product that a step is compared with."""
    kmeans: tuple[int, int, tuple[int, ...]]
    """Samples, features and numbers of clusters."""
    embed_files: int
    """The number of files, which are embedded again and again."""
    embed_rounds: int
    """Batches of files that every worker decodes while it is timed."""
    embed_memory: tuple[int, ...]
    """Numbers of files at which the memory of `newfound embed` is measured."""
    discover: tuple[int, int, int]
    """The number of vectors of each class, of their features, and of photographs for whole calls."""
    step: Overrides = field(default_factory=dict)
    """Settings that make the step small enough; settings given in the call take precedence."""


FULL = Scale(
    seconds=2.0,
    worker_rounds=3,
    evaluation_images=50_000,
    inter_samples=(64, 256, 1024, 4096),
    inter_classes=(10, 100, 1000),
    loops_up_to=256,
    matrix_side=8192,
    kmeans=(15_000, 512, (20, 30, 40, 50, 60)),
    embed_files=4096,
    embed_rounds=12,
    embed_memory=(2_000, 20_000),
    discover=(200, 1_280, 1_000),
)
SMALL = Scale(
    seconds=0.2,
    worker_rounds=2,
    evaluation_images=400,
    inter_samples=(32, 256, 1024),
    inter_classes=(10, 100, 1000),
    loops_up_to=32,
    matrix_side=1024,
    kmeans=(2_000, 128, (20, 30, 40, 50, 60)),
    embed_files=64,
    embed_rounds=2,
    embed_memory=(100, 400),
    discover=(20, 64, 60),
    step={"encoder": "small", "batch_size": 16},
)


@dataclass(frozen=True)
class Setup:
    """What to measure, and on which device."""

    recipe: Recipe
    """The recipe at full size."""
    step_recipe: Recipe
    """The recipe at the size of the scale."""
    benchmark: str
    task: Task
    look: Look
    device: torch.device
    precision: torch.dtype
    scale: Scale
    modes: tuple[Mode, ...]
    parts: tuple[str, ...]

    def split(self, recipe: Recipe) -> Split:
        """Random images for a few steps, known and novel in proportion to their classes."""
        number = max(EPOCH_STEPS * recipe.train["discover"].batch_size, self.task.num_classes)
        known = number * self.task.num_known // self.task.num_classes
        return noise_split(self.task, self.look, known, number - known, self.device)


def checked_setup(
    method: str, benchmark: str, settings: Overrides, modes: Sequence[str] = (), parts: Sequence[str] = ()
) -> Setup:
    """Resolve every name and setting; without modes or parts, measure everything that this machine can."""
    recipe = recipe_for(method, benchmark, settings)
    device = resolve_device(recipe.run.device)
    precision = resolve_precision(recipe.run.precision, device)
    scale = FULL if device.type == "cuda" else SMALL
    task, look = benchmark_shape(benchmark)
    small = {key: value for key, value in scale.step.items() if key not in settings}
    if recipe.train["discover"].epochs == 0:
        raise UsageError(f"{recipe.method} has no training step with these settings.")
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


def _modes(names: Sequence[str], device: torch.device, precision: torch.dtype) -> tuple[Mode, ...]:
    for name in names:
        if name not in MODES:
            raise unknown("mode", name, MODES)
        resolve_mode(name, device, precision, steps=0)
    if not names and device.type == "cpu":  # compiling there takes longer than everything else
        return ("eager",)
    default = MODES if precision != torch.float16 else MODES[:-1]
    return cast(tuple[Mode, ...], tuple(names)) or default


def _parts(names: Sequence[str], recipe: Recipe, look: Look) -> tuple[str, ...]:
    every, difference = (*PARTS, *ON_REQUEST), baseline_difference(recipe, look)
    for name in names:
        if name not in every:
            raise unknown("part", name, every)
        if name in BASELINE_PARTS and difference:
            raise UsageError(
                f"Part {name} compares with a straightforward version of IIC's published step on CIFAR-sized "
                f"images; it cannot be measured with {difference}."
            )
    if names:
        return tuple(part for part in every if part in names)
    return tuple(part for part in PARTS if not (difference and part in BASELINE_PARTS))


def baseline_difference(recipe: Recipe, look: Look) -> str:
    """The part of a recipe that the straightforward step lacks; empty if it computes the same."""
    config = recipe.config
    if not isinstance(config, IIC.Config):
        return f"method {recipe.method}"
    if look.kind != "cifar":
        return f"images of kind {look.kind}"
    published = IIC.Config()
    for key in ("intra", "intra_norm", "large_crops", "small_crops"):
        if getattr(config, key) != getattr(published, key):
            return f"{key}={getattr(config, key)}"
    augmentation = recipe.train["discover"].augmentation
    return "" if augmentation == "v2" else f"augmentation={augmentation}"


def _check_shared(settings: Overrides) -> None:
    shared = {field.name for field in fields(RunConfig)}
    if own := [key for key in settings if key not in shared]:
        raise UsageError(
            "Part methods measures each method with its own settings; only settings of the run, such as "
            f"device or precision, can be changed, got {', '.join(own)}."
        )


def benchmark_shape(benchmark: str) -> tuple[Task, Look]:
    """The number of classes of a benchmark, and the format of its images."""
    family, found = find_benchmark(benchmark)
    return Task(found.num_known, len(found.novel)), family.look


def noise_split(task: Task, look: Look, labelled: int, unlabelled: int, device: torch.device) -> Split:
    """A split of random pixels: speed does not depend on content. The labels cycle through the classes."""
    labels = torch.arange(labelled, device=device) % task.num_known
    known = _noise(labelled, look, device, "labelled")
    pile = _noise(unlabelled, look, device, "unlabelled")
    return Split(known, labels, pile, task.num_known, task.num_novel, look)


def noise_truth(split: Split, test: int, device: torch.device) -> Truth:
    """Novel classes for the unlabelled images, and `test` test images that cycle through all classes."""
    task = split.task
    novel = task.num_known + torch.arange(len(split.unlabelled), device=device) % task.num_novel
    classes = torch.arange(test, device=device) % task.num_classes
    return Truth(novel, _noise(test, split.look, device, "test"), classes)


def _noise(number: int, look: Look, device: torch.device, name: str) -> ResidentImages:
    shape, random = (number, 3, look.stored, look.stored), generator(device, 0, "noise", name)
    pixels = torch.randint(256, shape, dtype=torch.uint8, device=device, generator=random)
    return ResidentImages(pixels, [f"{name}/{row}" for row in range(number)])
