"""Every stage tried on two samples before any long work: settings that cannot work fail here."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from newfound.core import dist
from newfound.core.errors import Hint, NewfoundError, UsageError, ran_out_of_memory, reason_of
from newfound.core.learner import Learner, Method
from newfound.core.records import Clock, Losses, Outputs, Task
from newfound.core.registry import method_entry, method_names
from newfound.core.settings import Recipe
from newfound.data.augment import evaluation_view
from newfound.data.dataset import Split
from newfound.engine.device import resolve_device, resolve_mode, resolve_precision
from newfound.run.recipe import build_method, build_stage, encoder_name, extra_loss, stage_loader
from newfound.run.weights import load_encoder, load_pretrained

CPU = torch.device("cpu")
SMALL_CROP = 0.25
"""The work of a small crop, that of a large one being 1."""
FEW = 2
"""Images of each kind in a trial batch: more than one, for statistics over the batch."""


def preflight(recipe: Recipe, split: Split) -> dict[str, float]:
    """Build every part of a run, try it on a few images and discard it; how much work each stage is."""
    run = recipe.run
    if split.pile == "mixed" and not method_entry(recipe.method).method.mixed:
        able = ", ".join(name for name in method_names() if method_entry(name).method.mixed)
        raise UsageError(
            f"{recipe.method} assumes that no unlabelled image is of a known class; {able} do not.",
            Hint.PILE,
        )
    dist.check_device(run.device, run.devices)
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
    if split.num_novel is None:  # the method cannot be built before the number is estimated
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
    """One clear error for what fails; the caller's random numbers stay the same."""
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
    """How many large crops the stage encodes."""
    train, prefix = recipe.train[stage], "" if stage == "discover" else f"{stage}."
    loader = stage_loader(stage, learner, recipe, split, CPU)
    least = min(number for number in (loader.num_labelled, loader.num_unlabelled) if number)
    alone = learner.uses == "both" and not (loader.num_labelled and loader.num_unlabelled)
    if alone or (train.epochs and least < learner.fewest):
        size, needed = (
            f"{prefix}batch_size={train.batch_size}",
            f"{learner.fewest} or more images of each kind",
        )
        raise UsageError(f"{size} is too small: {recipe.method} needs {needed} in a batch.")
    if train.epochs and not any(parameter.requires_grad for parameter in learner.parameters()):
        raise UsageError(f"{recipe.method} trains nothing in {stage}; leave {prefix}epochs at 0.")
    crops = learner.views.large + SMALL_CROP * learner.views.small
    return train.epochs * loader.steps * loader.batch_size * crops


def _check_losses(losses: Any, owner: str, heads: int | None = None) -> None:
    """A loss is named terms, each a scalar or one value for each head."""
    terms = losses if isinstance(losses, Mapping) else {"": losses}
    fits = (_is_real(term) and tuple(term.shape) in ((), (heads or term.numel(),)) for term in terms.values())
    if losses is not terms or not terms or not all(fits):
        got = ", ".join(f"{name} {_kind(term)}".strip() for name, term in terms.items()) or "nothing"
        raise UsageError(f"{owner}.loss must return named terms, scalars or one value per head, got {got}.")


def _check_scores(method: Method, recipe: Recipe, split: Split) -> int:
    """The number of heads; both scores must be (heads, images, classes)."""
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
    """IIC's constraints need joint logits that are cosines, and must not be there already."""
    c, logits = recipe.constraints, out.get("logits")
    views = 2 if c.beta else 1
    if logits is None or logits.ndim != 4 or logits.shape[-1] != task.num_classes or len(logits) < views:
        needed = f"joint cosine logits of {views} or more views, which constraints.* need"
        raise UsageError(f"{recipe.method} has no {needed}.")
    for weight, term in (("alpha", "inter"), ("beta", "intra")):
        if getattr(c, weight) and term in own:
            raise UsageError(f"{recipe.method} has the {term}-class term itself; set constraints.{weight}=0.")


def _is_real(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _kind(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a {str(value.dtype).removeprefix('torch.')} tensor of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"
