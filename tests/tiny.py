"""Runs in a moment, on a few digits."""

from pathlib import Path

import torch

from newfound.core.config import Recipe
from newfound.core.registry import recipe_for
from newfound.data.images import Dataset
from newfound.experiment import Folder, Run, Source

CPU = torch.device("cpu")
SUBSET = 24
TINY = {
    "epochs": 2,
    "batch_size": 64,
    "warmup": 0,
    "mode": "eager",
    "device": "cpu",
    "checkpoint_seconds": 0,
}
STAGE = {"epochs": 2, "batch_size": 32, "warmup": 0}
NARROW = {"hidden": 32, "projection": 16}


def tiny_recipe(method: str, **overrides: object) -> Recipe:
    """A method's recipe for digits, cut down to a second."""
    recipe = recipe_for(method, "digits")
    known = recipe.flat()
    tiny = {key: value for key, value in (TINY | NARROW).items() if key in known}
    for stage in recipe.pretraining:
        tiny |= {f"{stage}.{key}": value for key, value in STAGE.items()}
    if method == "kmeans":
        tiny["epochs"] = 0
    return recipe_for(method, "digits", tiny | overrides)


def tiny_run(folder: Path, recipe: Recipe, dataset: Dataset, *, resume: bool = False) -> Run:
    """A run in `folder` on the tiny digits."""
    where = Folder(folder)
    where.open(Source(benchmark="digits", subset=SUBSET), recipe, resume)
    return Run(where, dataset, recipe)
