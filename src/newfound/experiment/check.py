"""What can be known to be wrong with a run before it trains, and so before anything is written."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from newfound.core.config import Recipe
from newfound.core.errors import NewfoundError, UsageError, ran_out_of_memory, reason_of
from newfound.core.learner import Learner, Method
from newfound.core.records import Clock, Losses, Outputs, Task
from newfound.data.augment import evaluation_view
from newfound.data.images import Split
from newfound.engine.device import resolve_device, resolve_mode, resolve_precision
from newfound.experiment.model import build_method, build_stage, load_pretrained, starting_weights
from newfound.experiment.plugin import extra_loss, has_joint_logits
from newfound.experiment.promises import check_losses, check_scores
from newfound.experiment.run import stage_loader

CPU = torch.device("cpu")
FEW = 2
"""Images of each kind in a batch that is only tried: more than one, for statistics over a batch."""
_TERMS = {"alpha": "inter", "beta": "intra"}
"""What the plug-in weighs, and the names under which IIC has the same."""


def check_run(recipe: Recipe, split: Split) -> None:
    """Build every part of a run, try it on a few images and throw it away: what does not fit raises here."""
    device = resolve_device(recipe.run.device)
    precision = resolve_precision(recipe.run.precision, device)
    resolve_mode(recipe.run.mode, device, precision, steps=0)
    method = build_method(recipe, split.task, split.look, CPU)
    check_start(recipe)
    starting_weights(recipe, split.look)
    if recipe.run.pretrained:
        method.adopt(load_pretrained(Path(recipe.run.pretrained))[0])
    for stage in recipe.pretraining:
        learner = build_stage(stage, recipe, split.task, split.look, CPU)
        _check_stage(stage, learner, recipe, split)
        if recipe.train[stage].epochs:
            check_losses(_tried(stage, learner, recipe, split)[1], stage)
    _check_stage("discover", method, recipe, split)
    heads = _heads(method, recipe, split)
    constrained = extra_loss(recipe.constraints, split.task) is not None
    if recipe.train["discover"].epochs or constrained:
        out, losses = _tried("discover", method, recipe, split)
        check_losses(losses, recipe.method, heads)
        if constrained:
            _check_constraints(out, losses, recipe, split.task)


def check_start(recipe: Recipe) -> None:
    """Weights that the first stage starts from need such a stage."""
    if recipe.run.weights and recipe.run.pretrained:
        raise UsageError(
            "weights must be empty when a pretrained checkpoint is given, since no stage starts from them; "
            f"got {recipe.run.weights} and {recipe.run.pretrained}; leave one of them out"
        )


def _tried(stage: str, learner: Learner, recipe: Recipe, split: Split) -> tuple[Outputs, Losses]:
    """What a learner makes of a few images."""
    train, kinds = recipe.train[stage], 2 if learner.uses == "both" else 1
    size = min(kinds * max(FEW, learner.fewest), train.batch_size)
    few = replace(train, batch_size=size, labelled_share="half", classes_per_batch=0)
    loader = stage_loader(stage, learner, replace(recipe, train={stage: few}), split, CPU)
    batch, clock = loader.batch(next(loader.draws(0))), Clock(torch.zeros(()))
    with _trying(stage, recipe):
        out = learner.train()(batch, clock)
        return out, learner.loss(out, batch, clock)


def _heads(method: Method, recipe: Recipe, split: Split) -> int:
    """How many heads say something of a few images."""
    look, rows = split.look, torch.arange(min(FEW, len(split.unlabelled)))
    images = evaluation_view(split.unlabelled.fetch(rows), look.size, look.kind, look.mean, look.std)
    with _trying("discover", recipe):
        both = method.eval().both_scores(images)
    return check_scores(both, recipe.method, len(images), split.task)


@contextmanager
def _trying(stage: str, recipe: Recipe) -> Iterator[None]:
    """What fails becomes one clear error; the random numbers that the caller will draw stay the same."""
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            yield
    except (RuntimeError, ValueError, IndexError) as error:
        if isinstance(error, NewfoundError) or ran_out_of_memory(error):
            raise
        raise UsageError(
            f"the settings of {recipe.method} must fit each other, its network and the images; got in "
            f"{stage}: {reason_of(error)}; newfound methods {recipe.method} lists them"
        ) from error


def _check_constraints(out: Outputs, own: Losses, recipe: Recipe, task: Task) -> None:
    """Ask what the method itself gives."""
    c = recipe.constraints
    if not has_joint_logits(out, task):
        raise UsageError(
            f"constraints.alpha and constraints.beta must be 0 for {recipe.method}, whose outputs are no "
            f"cosines of known and novel classes together; got {c.alpha} and {c.beta}; leave them out"
        )
    if c.beta and len(out["logits"]) < 2:
        raise UsageError(
            f"constraints.beta, which compares views, must be 0 for {recipe.method}, which has a single one; "
            f"got {c.beta}; leave it out"
        )
    for weight, term in _TERMS.items():
        if getattr(c, weight) and term in own:
            raise UsageError(
                f"constraints.{weight} must be 0 for {recipe.method}, which has that term itself; got "
                f"{getattr(c, weight)}; leave it out, or switch the method's own term off first"
            )


def _check_stage(stage: str, learner: Learner, recipe: Recipe, split: Split) -> None:
    train, prefix = recipe.train[stage], "" if stage == "discover" else f"{stage}."
    loader = stage_loader(stage, learner, recipe, split, CPU)
    if learner.uses == "both" and not (loader.num_labelled and loader.num_unlabelled):
        raise UsageError(
            f"{prefix}batch_size must be at least 2, a labelled and an unlabelled image; "
            f"got {train.batch_size}; 256 is usual"
        )
    fewest = min(number for number in (loader.num_labelled, loader.num_unlabelled) if number)
    if train.epochs and fewest < learner.fewest:
        raise UsageError(
            f"{prefix}batch_size must leave at least {learner.fewest} images of each kind that "
            f"{recipe.method} trains on; got {fewest}; raise it, or give more images"
        )
    if train.epochs and (train.warmup or not train.lr_falls) and train.min_lr > train.lr:
        raise UsageError(
            f"{prefix}min_lr must be at most {prefix}lr, {train.lr}; got {train.min_lr}; lower it"
        )
    if train.epochs and not any(parameter.requires_grad for parameter in learner.parameters()):
        raise UsageError(
            f"{prefix}epochs must be 0 for {recipe.method}, which trains nothing after its pretraining; "
            f"got {train.epochs}; leave it out"
        )
