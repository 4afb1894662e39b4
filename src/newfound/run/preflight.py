"""Checks before any long work: every stage is tried on two samples, and the needs of the run are predicted.

This is where settings that cannot work fail, and runs that do not fit into memory or onto the disk.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from newfound.core import dist
from newfound.core.errors import Hint, NewfoundError, UsageError, ran_out_of_memory, reason_of
from newfound.core.files import check_fits, free_disk, free_memory, in_units
from newfound.core.learner import Learner, Method
from newfound.core.records import Clock, Losses, Outputs, Task, total
from newfound.core.registry import method_entry, method_names
from newfound.core.settings import Recipe
from newfound.data.augment import evaluation_view
from newfound.data.dataset import Dataset, Look, Split
from newfound.data.folders import is_resident
from newfound.data.images import ImageSet, ResidentImages, StreamedImages
from newfound.data.vectors import in_memory, sampled
from newfound.data.workers import FILES, num_workers
from newfound.engine.device import resolve_device, resolve_mode, resolve_precision
from newfound.engine.evaluate import TrainingBank, Viewer, scores_of
from newfound.run.events import duration
from newfound.run.parts import CUDA, NAME, PROGRAM
from newfound.run.recipe import build_method, build_stage, encoder_name, extra_loss, stage_loader
from newfound.run.weights import load_encoder, load_pretrained

CPU = torch.device("cpu")
SMALL_CROP = 0.25
"""The work for a small crop, relative to a large one."""
TRIED = {"cpu": 16, "cuda": 128}
"""Images of 224 pixels in a measured step, at most."""
DECODED = 32
"""Files that are decoded to measure how long decoding takes."""
SAMPLES = (1_000, 2_000, 4_000)
"""Vectors that are clustered to predict how long clustering all of them takes."""
COPIES = 6
"""Copies of vectors that clustering holds in memory."""
FEW = 2
"""Images of each kind in a trial batch: more than one, for batch statistics."""


def preflight(recipe: Recipe, split: Split) -> dict[str, float]:
    """Build every part of a run, try it on a few images and discard it; return the work of each stage."""
    run = recipe.run
    if split.pile == "mixed" and not method_entry(recipe.method).method.mixed:
        able = ", ".join(name for name in method_names() if method_entry(name).method.mixed)
        raise UsageError(
            f"{recipe.method} assumes that no unlabelled image is of a known class; {able} do not.", Hint.PILE
        )
    check_device(run.device, run.devices)
    device = resolve_device(run.device)
    resolve_mode(run.mode, device, resolve_precision(run.precision, device), steps=0)
    if run.weights:
        load_encoder(Path(run.weights), encoder_name(recipe, split.look))
    work = {}
    for stage in recipe.pretraining:
        learner = build_stage(stage, recipe, split.task, split.look, CPU)
        work[stage] = _check_stage(stage, learner, recipe, split)
        if recipe.train[stage].epochs:
            _check_losses(_try(stage, learner, recipe, split)[1], stage)
    if split.num_novel is None:  # the method cannot be built until the number is estimated
        return work
    method = build_method(recipe, split.task, split.look, CPU)
    if run.pretrained:
        method.adopt(load_pretrained(Path(run.pretrained))[0])
    work["discover"] = _check_stage("discover", method, recipe, split)
    heads = _check_scores(method, recipe, split)
    constrained = extra_loss(recipe.constraints, split.task) is not None
    if recipe.train["discover"].epochs or constrained:
        out, losses = _try("discover", method, recipe, split)
        _check_losses(losses, recipe.method, heads)
        if constrained:
            _check_constraints(out, losses, recipe, split.task)
    return work


def check_device(wanted: str, number: int) -> None:
    """Refuse more processes than GPUs, or a single GPU for several processes."""
    gpus, several = 0 if wanted == "cpu" else torch.cuda.device_count(), max(number, dist.world()) > 1
    if several and ":" in wanted:
        raise UsageError(f"Several processes need a GPU each, so device cannot be {wanted!r}.")
    if dist.world() == 1 and number > gpus > 0:
        raise UsageError(f"devices={number}, but torch finds {gpus} GPUs here.")


@dataclass(frozen=True)
class Plan:
    """A prediction of what a run will need; sizes are in bytes."""

    labelled: int
    unlabelled: int
    sample: int
    """Unlabelled images or vectors that are trained on."""
    look: Look
    data: int
    """Size of all images or vectors."""
    resident: bool
    """Whether they are kept in memory rather than read when needed."""
    host: int
    """Memory."""
    loaded: int
    """Part of that memory which is already in use."""
    gpu: int
    """GPU memory; 0 without a GPU."""
    disk: int
    seconds: float
    estimated: bool
    """Whether the number of novel classes will be estimated first, which is not part of `seconds`."""
    embedding: float
    """Part of `seconds` that embedding the images takes."""
    processes: int
    """Processes that share this machine."""

    @property
    def lines(self) -> list[str]:
        """The plan in words."""
        vectors, sample = self.look.kind == "vectors", f", {self.sample:,} of them trained on"
        noun, kept = "vectors" if vectors else "images", "in memory" if self.resident else "read when needed"
        unknown = ", plus the time to estimate the number of novel classes" * self.estimated
        embedding = f", including {duration(self.embedding)} to embed the images" * (self.embedding > 0)
        return [
            f"{noun}: {self.labelled:,} labelled, {self.unlabelled:,} unlabelled"
            + sample * (self.sample < self.unlabelled)
            + f", {in_units(self.data)}, {kept}",
            f"memory: about {in_units(self.host)}, {in_units(free_memory())} free",
            *([f"GPU memory: about {in_units(self.gpu)}, {in_units(_free_gpu())} free"] if self.gpu else []),
            f"disk: about {in_units(self.disk)}",
            f"time: about {duration(self.seconds)}{embedding}{unknown}",
        ]

    def check(self, place: Path) -> None:
        """Refuse a run that does not fit into memory or onto the disk of its folder, `place`."""
        hint = Hint.SAMPLE if self.look.kind == "vectors" else Hint.MEMORY
        for what, needed, free, remedy in (
            ("memory", self.host - self.loaded, free_memory(), Hint.DEVICES if self.processes > 1 else hint),
            ("GPU memory", self.gpu, _free_gpu(), hint),
            (f"disk space for {place}", self.disk, free_disk(place), Hint.NEW_FOLDER),
        ):
            check_fits(what, needed, free, remedy)


def plan(recipe: Recipe, data: Dataset, work: Mapping[str, float], embedding: float = 0.0) -> Plan:
    """Predict what a run will need, from a measured step of each stage or from clustering a few vectors.

    `work` is what `preflight` returned; `embedding` is how many seconds embedding the images takes.
    """
    device, seen = resolve_device(recipe.run.device), sampled(data, recipe.run.sample, recipe.run.seed)
    seconds, training, weights, dim = embedding, 0.0, 0, 0
    split = replace(seen.split, num_novel=data.num_novel or seen.split.num_known)
    for stage, amount in work.items():
        learner = build_stage(stage, recipe, split.task, split.look, device)
        dim, weights = learner.encoder.dim, sum(each.nbytes for each in learner.state_dict().values())
        if recipe.train[stage].epochs:
            per_crop, per_image = _measured(stage, learner, recipe, split, device)
            crops = learner.views.large + SMALL_CROP * learner.views.small
            seconds += amount * max(per_crop, _decoding(split.unlabelled) / crops)
            # Weights, their gradients, moments, and a copy while they are updated.
            batch = min(recipe.train[stage].batch_size, len(split.labelled) + len(split.unlabelled))
            training = max(training, per_image * batch + 4 * weights)
        elif stage == "discover":
            seconds += _clustering(recipe, split, len(data.split.unlabelled), device)
            training = max(training, COPIES * 4 * dim * (len(split.labelled) + len(split.unlabelled)))
    look, vectors = split.look, split.look.kind == "vectors"
    n_l, n_u, task = len(data.split.labelled), len(data.split.unlabelled), split.task
    each = data.split.unlabelled.size[0] * look.size * 2 if vectors else 3 * look.stored**2
    kept = each * (len(split.labelled) + len(split.unlabelled)) if _is_kept(split) else 0
    predicted = n_u * (4 * (task.num_classes + task.num_novel) + 2 * dim)
    on_gpu, processes = device.type == "cuda", dist.on_this_machine()
    return Plan(
        labelled=n_l,
        unlabelled=n_u,
        sample=len(split.unlabelled),
        look=look,
        data=each * (n_l + n_u),
        resident=_is_kept(data.split) and len(split.unlabelled) == n_u,
        host=int(processes * (PROGRAM + CUDA * on_gpu + kept) + 3 * predicted + (0 if on_gpu else training)),
        loaded=sum(
            each.pixels.untyped_storage().nbytes()
            for each in (data.split.labelled, data.split.unlabelled)
            if isinstance(each, ResidentImages)
        ),
        gpu=int(training + (kept if 2 * kept < _free_gpu() else 0)) if on_gpu else 0,
        disk=3 * weights + predicted + NAME * n_u + (each * (n_l + n_u) if embedding else 0),
        seconds=seconds,
        estimated=data.num_novel is None,
        embedding=embedding,
        processes=processes,
    )


def _is_kept(split: Split) -> bool:
    """Whether the images are kept in memory once they have been read."""
    streamed = [each for each in (split.labelled, split.unlabelled) if isinstance(each, StreamedImages)]
    read = any(each.checked for each in streamed)
    return not read and is_resident(sum(map(len, streamed)), split.unlabelled.size)


def _measured(
    stage: str, learner: Learner, recipe: Recipe, split: Split, device: torch.device
) -> tuple[float, float]:
    """The seconds per crop and the bytes per image of a training step, measured on a few images."""
    train, saved = recipe.train[stage], dict[int, int]()
    pixels = 1 if split.look.kind == "vectors" else split.look.size**2
    most = max(TRIED[device.type] * 224**2 // pixels, 2 * learner.fewest, 4)
    few = replace(train, batch_size=min(most, train.batch_size), classes_per_batch=0)
    loader = stage_loader(stage, learner, replace(recipe, train={stage: few}), split.to(device), device)
    batch, clock = loader.batch(next(loader.draws(0))), Clock(torch.zeros((), device=device))

    def keep(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    precision = resolve_precision(recipe.run.precision, device)
    for _ in range(2):  # the first is slower
        start = time.perf_counter()
        with (
            torch.random.fork_rng(devices=[]),
            torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
            torch.autocast(device.type, precision, enabled=precision != torch.float32),
        ):
            losses = total(learner.train().loss(learner(batch, clock), batch, clock))
        if losses.requires_grad:
            losses.backward()  # type: ignore[no-untyped-call]
        losses.item()  # waits for the GPU
        seconds = time.perf_counter() - start
        bytes_saved, saved = sum(saved.values()), {}
    parameters = sum(each.nbytes for each in learner.parameters())
    crops = (learner.views.large + SMALL_CROP * learner.views.small) * loader.batch_size
    return seconds / crops, max(bytes_saved - parameters, 0) / loader.batch_size


def _decoding(images: ImageSet) -> float:
    """The seconds that decoding takes per image, using all cores; 0 if the images are in memory."""
    if not isinstance(images, StreamedImages):
        return 0.0
    number, start = min(DECODED, len(images)), time.perf_counter()
    for row in range(number):
        images.fetch(torch.tensor([row]))
    return (time.perf_counter() - start) / number / max(num_workers(len(images), FILES), 1)


def _clustering(recipe: Recipe, split: Split, pile: int, device: torch.device) -> float:
    """The seconds that a method without training takes, predicted from small samples of the pile.

    The flops on three samples show how its work grows, linearly and with the square of the number of vectors.
    The method finds the classes in `split` and assigns all `pile` vectors.
    """
    number, flops, seconds = len(split.unlabelled), list[tuple[int, int]](), 0.0
    sizes = SAMPLES if number > SAMPLES[-1] else (number,)
    for size in sizes:
        some = in_memory(Dataset("", split, None, ()), size, 0, quiet=True).split.to(device)
        method = build_method(recipe, some.task, some.look, device)
        viewer, start = Viewer(method, some.look, device, torch.float32), time.perf_counter()
        level = logging.root.manager.disable
        logging.disable(max(level, logging.INFO))  # its log would be about the sample
        try:
            with torch.random.fork_rng(devices=[]), FlopCounterMode(display=False) as finding:
                method.begin(TrainingBank(viewer, some))
            with FlopCounterMode(display=False) as assigning:
                scores_of(method, viewer, some.unlabelled)
        finally:
            logging.disable(level)
        flops.append((finding.get_total_flops(), assigning.get_total_flops()))
        seconds = time.perf_counter() - start
    if len(sizes) < len(SAMPLES):
        return seconds * pile / number
    find, assign = (np.polyval(np.polyfit(sizes, each, 2), number) for each in zip(*flops, strict=True))
    grown = (find + assign * pile / number) / max(sum(flops[-1]), 1)
    return seconds * max(float(grown), number / sizes[-1])


def _free_gpu() -> float:
    return float(torch.cuda.mem_get_info()[0]) if torch.cuda.is_available() else 0.0


def _try(stage: str, learner: Learner, recipe: Recipe, split: Split) -> tuple[Outputs, Losses]:
    """The outputs and losses of a learner on a few images."""
    train, kinds = recipe.train[stage], 2 if learner.uses == "both" else 1
    size = min(kinds * max(FEW, learner.fewest), train.batch_size)
    few = replace(train, batch_size=size, labelled_share="half", classes_per_batch=0)
    loader = stage_loader(stage, learner, replace(recipe, train={stage: few}), split, CPU)
    batch, clock = loader.batch(next(loader.draws(0))), Clock(torch.zeros(()))
    with _trying(stage, recipe):
        out = learner.train()(batch, clock)
        return out, learner.loss(out, batch, clock)


@contextmanager
def _trying(stage: str, recipe: Recipe) -> Iterator[None]:
    """Raise one clear error for whatever fails; the caller's random state is kept."""
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            yield
    except (RuntimeError, ValueError, IndexError) as error:
        if isinstance(error, NewfoundError) or ran_out_of_memory(error):
            raise
        raise UsageError(
            f"The settings of {recipe.method} do not fit each other, the encoder or the images ({stage}: "
            f"{reason_of(error)})."
        ) from error


def _check_stage(stage: str, learner: Learner, recipe: Recipe, split: Split) -> float:
    """Check that a stage can be trained, and return its work: how many large crops it encodes."""
    train, prefix = recipe.train[stage], "" if stage == "discover" else f"{stage}."
    loader = stage_loader(stage, learner, recipe, split, CPU)
    least = min(number for number in (loader.num_labelled, loader.num_unlabelled) if number)
    alone = learner.uses == "both" and not (loader.num_labelled and loader.num_unlabelled)
    if alone or (train.epochs and least < learner.fewest):
        raise UsageError(
            f"{prefix}batch_size={train.batch_size} is too small: {recipe.method} needs {learner.fewest} "
            "or more images of each kind in a batch."
        )
    if train.epochs and not any(parameter.requires_grad for parameter in learner.parameters()):
        raise UsageError(f"{recipe.method} trains no parameters in {stage}; leave {prefix}epochs at 0.")
    crops = learner.views.large + SMALL_CROP * learner.views.small
    return train.epochs * loader.steps * loader.batch_size * crops


def _check_losses(losses: Any, owner: str, heads: int | None = None) -> None:
    """Refuse losses that are not named terms, each a scalar or one value per head."""
    terms = losses if isinstance(losses, Mapping) else {"": losses}
    fits = (_is_real(term) and tuple(term.shape) in ((), (heads or term.numel(),)) for term in terms.values())
    if losses is not terms or not terms or not all(fits):
        got = ", ".join(f"{name} {_kind(term)}".strip() for name, term in terms.items()) or "nothing"
        raise UsageError(f"{owner}.loss must return named terms, scalars or one value per head, got {got}.")


def _check_scores(method: Method, recipe: Recipe, split: Split) -> int:
    """Refuse scores that are not (heads, images, classes), and return the number of heads."""
    look, rows = split.look, torch.arange(min(FEW, len(split.unlabelled)))
    images = evaluation_view(split.unlabelled.fetch(rows), look.size, look.kind, look.mean, look.std)
    with _trying("discover", recipe):
        joint, novel = method.eval().both_scores(images)
    heads = len(joint) if _is_real(joint) and joint.ndim == 3 else 1
    for scores, classes in ((joint, split.task.num_classes), (novel, split.task.num_novel)):
        if not _is_real(scores) or scores.shape != (heads, len(images), classes):
            raise UsageError(
                f"{recipe.method}.scores must be (heads, images, classes), here ({heads}, {len(images)}, "
                f"{classes}), got {_kind(scores)}."
            )
    return heads


def _check_constraints(out: Outputs, own: Losses, recipe: Recipe, task: Task) -> None:
    """Refuse IIC's constraints for methods without joint cosine logits, or that have them already."""
    c, logits = recipe.constraints, out.get("logits")
    views = 2 if c.beta else 1
    if logits is None or logits.ndim != 4 or logits.shape[-1] != task.num_classes or len(logits) < views:
        needed = f"joint cosine logits of {views} or more views, which constraints.* require"
        raise UsageError(f"{recipe.method} has no {needed}.")
    for weight, term in (("alpha", "inter"), ("beta", "intra")):
        if getattr(c, weight) and term in own:
            raise UsageError(
                f"{recipe.method} already has this {term}-class term; set constraints.{weight}=0."
            )


def _is_real(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _kind(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a {str(value.dtype).removeprefix('torch.')} tensor of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"
