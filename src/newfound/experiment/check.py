"""What can be known to be wrong with a run before it trains, and so before anything is written."""

from pathlib import Path

import torch

from newfound.core.config import Recipe
from newfound.core.errors import UsageError
from newfound.core.learner import Learner
from newfound.data.images import Split
from newfound.engine.device import resolve_device, resolve_mode, resolve_precision
from newfound.experiment.model import build_method, build_stage, load_pretrained
from newfound.experiment.run import stage_loader

CPU = torch.device("cpu")


def check_run(recipe: Recipe, split: Split) -> None:
    """Build every part of a run and throw it away: what does not fit raises here."""
    device = resolve_device(recipe.run.device)
    precision = resolve_precision(recipe.run.precision, device)
    resolve_mode(recipe.run.mode, device, precision, resident=split.to(device).resident, steps=0)
    method = build_method(recipe, split.task, split.look, CPU)
    if recipe.run.pretrained:
        method.adopt(load_pretrained(Path(recipe.run.pretrained))[0])
    for stage in recipe.pretraining:
        _check_stage(stage, build_stage(stage, recipe, split.task, split.look, CPU), recipe, split)
    _check_stage("discover", method, recipe, split)


def _check_stage(stage: str, learner: Learner, recipe: Recipe, split: Split) -> None:
    train, prefix = recipe.train[stage], "" if stage == "discover" else f"{stage}."
    loader = stage_loader(stage, learner, recipe, split, CPU)
    if learner.uses == "both" and not (loader.num_labelled and loader.num_unlabelled):
        raise UsageError(
            f"{prefix}batch_size must be at least 2, a labelled and an unlabelled image; "
            f"got {train.batch_size}; 256 is usual"
        )
    if train.epochs and not any(parameter.requires_grad for parameter in learner.parameters()):
        raise UsageError(
            f"{prefix}epochs must be 0 for {recipe.method}, which trains nothing after its pretraining; "
            f"got {train.epochs}; leave it out"
        )
