"""Finished runs put to use: evaluated again, drawn, or asked about new images."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newfound.core.errors import CheckpointError, DataError, UsageError
from newfound.core.learner import Method
from newfound.core.records import Say, Task
from newfound.data.files import open_images
from newfound.data.images import Dataset, ImageSet, Look
from newfound.data.own import load_pile
from newfound.engine.bank import Viewer, scores_of
from newfound.engine.checkpoint import Checkpoint, load_strictly
from newfound.engine.device import resolve_device, resolve_precision
from newfound.engine.evaluator import Evaluator
from newfound.experiment.folder import Folder
from newfound.experiment.model import build_method
from newfound.experiment.pile import Pile, numpy_of
from newfound.experiment.run import best_head
from newfound.experiment.same_images import check_images, may_have_changed


@dataclass(frozen=True)
class Trained:
    """The method of a finished run, ready to be shown images."""

    method: Method
    viewer: Viewer
    checkpoint: Checkpoint

    @property
    def head(self) -> int:
        """The one that the run reports."""
        return best_head(self.checkpoint.state["lines"])

    def scores(self, images: ImageSet) -> Tensor:
        """(n, C) what that head says of every image, known classes first."""
        head = self.head
        return self.viewer.over(images, lambda view: self.method.scores(view)[head])


def load_method(folder: Folder) -> Trained:
    """The method of a run from its folder alone, without the images it was trained on."""
    recipe, checkpoint = folder.recipe(), Checkpoint.load(folder.checkpoint)
    state = checkpoint.state
    if state["stage"] != "discover":
        raise CheckpointError(
            f"{folder.path} must hold a run that reached discovery; got one still in {state['stage']}; "
            "finish it with --resume"
        )
    done, epochs = state["epoch"], recipe.train["discover"].epochs
    if done < epochs:
        raise CheckpointError(
            f"{folder.path} must hold a finished run; got one after epoch {done} of {epochs}; "
            "finish it with --resume"
        )
    device = resolve_device("auto")
    precision = _precision(recipe.run.precision, device)
    look = Look(**state["look"])
    method = build_method(recipe, Task(**state["task"]), look, device)
    load_strictly(method, checkpoint.weights, folder.checkpoint)
    return Trained(method, Viewer(method, look, device, precision), checkpoint)


def _precision(wanted: str, device: torch.device) -> torch.dtype:
    """That of the run, so that what is printed is what was stored, where this device has it."""
    try:
        return resolve_precision(wanted, device)
    except UsageError:
        return resolve_precision("auto", device)


def evaluator_of(
    folder: Folder, data_dir: str | None = None, say: Say = lambda line: None
) -> tuple[Evaluator, tuple[str, ...], int]:
    """The evaluator of a run on its own benchmark, the names of all classes, and the head of lowest loss."""
    source = folder.source()
    source.check_loadable()
    if not source.truth_is_known:
        folder.read_results()  # refuses a run that has not found anything yet
        raise UsageError(
            f"an evaluation needs the true classes; {folder.path} ran on images whose classes nobody knows; "
            "look at its assignments.csv instead"
        )
    run = load_method(folder)
    data, device = _load(folder, data_dir, say), run.viewer.device
    assert data.truth is not None
    unlabelled, truth = data.split.unlabelled.to(device), data.truth.to(device)
    evaluator = Evaluator(run.method, run.viewer, unlabelled, truth)
    return evaluator, data.class_names, run.head


def found_classes(
    folder: Folder, data_dir: str | None = None, say: Say = lambda line: None
) -> tuple[Tensor, Tensor, tuple[str, ...], int]:
    """What a run found in images whose classes nobody knows, from the images it was trained on.

    Scores (n, C), classes (n,) that are given for labelled and found for unlabelled images, the names of all
    classes, and how many are known.
    """
    run = load_method(folder)
    data = images_of(folder, data_dir, run.checkpoint, say)
    split = data.split.to(run.viewer.device)
    unlabelled, novel = (each[run.head] for each in scores_of(run.method, run.viewer, split.unlabelled))
    classes = torch.cat([split.labels, novel.argmax(-1) + split.task.num_known])
    scores = torch.cat([run.scores(split.labelled), unlabelled])
    return scores, classes, data.class_names, split.task.num_known


def pile_of(folder: Folder, data_dir: str | None = None, say: Say = lambda line: None) -> Pile:
    """What a run says of the unlabelled images it was trained on."""
    run = load_method(folder)
    data = images_of(folder, data_dir, run.checkpoint, say)
    scores = scores_of(run.method, run.viewer, data.split.unlabelled.to(run.viewer.device))
    return Pile.of(run.method, data, scores, run.head)


def images_of(
    folder: Folder, data_dir: str | None, checkpoint: Checkpoint, say: Say = lambda line: None
) -> Dataset:
    """The images that a run was trained on, from where they are now; any others are refused."""
    data = _load(folder, data_dir, say)
    check_images(checkpoint, folder, data)
    return data


def _load(folder: Folder, data_dir: str | None, say: Say) -> Dataset:
    source = folder.source()
    _check_there(folder, source.labelled, source.unlabelled)
    return (replace(source, data_dir=data_dir) if data_dir else source).load(say)


def _check_there(folder: Folder, *places: str | None) -> None:
    for given in places:
        if given and not os.path.exists(given):
            raise DataError(
                f"the images of {folder.path} must be where they were; {given} does not exist; bring it "
                f"back, or tell where it is with newfound relocate {folder.quoted}"
            )


def pile_features(folder: Folder, images: Sequence[str], data_dir: str | None = None) -> NDArray[np.float32]:
    """Images of the pile, by name → features (n, D) of the encoder."""
    run = load_method(folder)
    some = _some_of_pile(folder, run, images, data_dir).to(run.viewer.device)
    return numpy_of(run.viewer.over(some, run.method.encoder))


def _some_of_pile(folder: Folder, run: Trained, images: Sequence[str], data_dir: str | None) -> ImageSet:
    """Own images are read alone, which spares the rest, unless they may have changed since the run began."""
    source = folder.source()
    if source.unlabelled and source.held_out is None and not may_have_changed(folder, images):
        _check_there(folder, source.unlabelled)
        found, _, missing = open_images(images, (run.viewer.look.stored,) * 2, strict=False)
        if missing:
            raise DataError(
                f"these {len(images):,} images of {folder.path} must be readable; got {len(missing):,} that "
                f"are not, first {missing[0]}; bring them back, or tell where they are with newfound relocate"
            )
        return found
    pile = images_of(folder, data_dir, run.checkpoint).split.unlabelled
    place = {name: row for row, name in enumerate(pile.names)}
    return pile.some(torch.tensor([place[name] for name in images]))


@dataclass(frozen=True)
class Prediction:
    """What a run says of new images."""

    images: Sequence[str]
    """Whole paths, which can be found again from wherever they are read."""
    shares: NDArray[np.floating]
    """(n, C) probabilities among all classes, the known ones first."""
    features: NDArray[np.floating] | None
    """(n, D) where they were asked for."""
    left_out: Sequence[str]
    """Files, each with the reason."""


def predict(folder: Folder, images: Path, strict: bool, with_features: bool, say: Say) -> Prediction:
    """Ask a run about new images."""
    run = load_method(folder)
    if not run.method.joint:
        say(
            f"{folder.recipe().method} trains known and novel classes apart, so which of the two an image "
            "is, is a guess"
        )
    pile, skipped = load_pile(images, run.viewer.look.stored, strict, say)
    pile = pile.to(run.viewer.device)
    shares = numpy_of(run.scores(pile).softmax(-1))
    features = numpy_of(run.viewer.over(pile, run.method.encoder)) if with_features else None
    return Prediction([os.path.abspath(name) for name in pile.names], shares, features, skipped)
