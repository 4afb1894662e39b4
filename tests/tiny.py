"""Runs that take a moment, on a few digits."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from newfound.core.registry import method_entry, recipe_for
from newfound.core.settings import Recipe
from newfound.data.dataset import Dataset
from newfound.engine.checkpoint import Checkpoint
from newfound.run.events import Epoch, Event, Stopped
from newfound.run.folder import Folder
from newfound.run.models import Results
from newfound.run.run import Run

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
QUICK = {**TINY, **NARROW, **{f"pretrain.{key}": value for key, value in STAGE.items()}}
"""The settings of a quick run of IIC."""


def tiny_recipe(method: str, **overrides: object) -> Recipe:
    """A method's recipe for digits, cut down to a second."""
    recipe = recipe_for(method, "digits")
    known = recipe.flat()
    tiny = {key: value for key, value in (TINY | NARROW).items() if key in known}
    for stage in recipe.pretraining:
        tiny |= {f"{stage}.{key}": value for key, value in STAGE.items()}
    if not method_entry(method).method.schedules["discover"].epochs:
        tiny["epochs"] = 0
    return recipe_for(method, "digits", tiny | overrides)


def stripes() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Four kinds of striped images that are easy to tell apart: (60, 12, 12), and kinds (60,) from 0."""
    random = np.random.default_rng(0)
    kinds = random.permutation(np.repeat(np.arange(4), 15))
    images = random.random((60, 12, 12)) * 0.3
    for image, kind in zip(images, kinds, strict=True):
        image[kind::4] += 0.7
    return images, kinds


def tiny_run(folder: Path, recipe: Recipe, dataset: Dataset, *, resume: bool = False) -> Run:
    """A run in `folder` on the tiny digits; pretrained weights are shared beside it."""
    return Run(Folder(folder), dataset, recipe, resume=resume)


def stop_in(stage: str, run: Run) -> None:
    """Discover until the first epoch of `stage` has ended."""
    seen: list[Event] = []
    run.watch = seen.append
    run.should_stop = lambda: stage in [each.record.stage for each in seen[-1:] if isinstance(each, Epoch)]
    with pytest.raises(Stopped):
        run.discover()


def weights_of(run: Run) -> dict[str, Tensor]:
    """What the checkpoint of a run holds."""
    return Checkpoint.load(run.folder.checkpoint).weights


def accuracy(results: Results) -> float:
    """Task-aware accuracy on the training split."""
    assert results.task_aware is not None
    assert results.task_aware.train.acc.mean is not None
    return results.task_aware.train.acc.mean
