"""What can be known to be wrong with a run before it trains, and so before anything is written."""

from dataclasses import replace
from pathlib import Path

import torch

from newfound.core.config import Recipe
from newfound.core.errors import UsageError
from newfound.core.learner import Learner, Method
from newfound.core.records import Clock
from newfound.data.images import Split
from newfound.engine.device import resolve_device, resolve_mode, resolve_precision
from newfound.experiment.model import build_method, build_stage, load_pretrained, starting_weights
from newfound.experiment.plugin import extra_loss, has_joint_logits
from newfound.experiment.run import stage_loader

CPU = torch.device("cpu")
FEW = 8
"""Images in a batch that is only looked at."""
_TERMS = {"alpha": "inter", "beta": "intra"}
"""What the plug-in weighs, and the names under which IIC has the same."""


def check_run(recipe: Recipe, split: Split) -> None:
    """Build every part of a run and throw it away: what does not fit raises here."""
    device = resolve_device(recipe.run.device)
    precision = resolve_precision(recipe.run.precision, device)
    resolve_mode(recipe.run.mode, device, precision, steps=0)
    method = build_method(recipe, split.task, split.look, CPU)
    check_start(recipe)
    starting_weights(recipe, split.look)
    if recipe.run.pretrained:
        method.adopt(load_pretrained(Path(recipe.run.pretrained))[0])
    for stage in recipe.pretraining:
        _check_stage(stage, build_stage(stage, recipe, split.task, split.look, CPU), recipe, split)
    _check_stage("discover", method, recipe, split)
    if extra_loss(recipe.constraints, split.task):
        _check_constraints(method, recipe, split)


def check_start(recipe: Recipe) -> None:
    """Weights that the first stage starts from need such a stage."""
    if recipe.run.weights and recipe.run.pretrained:
        raise UsageError(
            "weights must be empty when a pretrained checkpoint is given, since no stage starts from them; "
            f"got {recipe.run.weights} and {recipe.run.pretrained}; leave one of them out"
        )


def _check_constraints(method: Method, recipe: Recipe, split: Split) -> None:
    """Ask the method itself, with a batch of a few images."""
    few = replace(recipe.train["discover"], batch_size=FEW, classes_per_batch=0)
    loader = stage_loader("discover", method, replace(recipe, train={"discover": few}), split, CPU)
    batch = loader.batch(next(loader.draws(0)))
    clock = Clock(torch.zeros(()), few.epochs)
    with torch.no_grad():
        out = method(batch, clock)
        own = method.loss(out, batch, clock)
    c = recipe.constraints
    if not has_joint_logits(out, split.task):
        raise UsageError(
            f"constraints.alpha and constraints.beta must be 0 for {recipe.method}, whose heads give no "
            f"joint logits of known and novel classes; got {c.alpha} and {c.beta}; leave them out"
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
