"""Whether the images are still those that a run began with, and which to look at if they are not."""

import os
from collections.abc import Sequence
from operator import attrgetter

from newfound.core.errors import CheckpointError, UsageError, shortened
from newfound.data.images import Dataset, Split
from newfound.engine.checkpoint import Checkpoint
from newfound.experiment.folder import Folder


def check_images(saved: Checkpoint, folder: Folder, dataset: Dataset) -> None:
    """Refuse other images than those of the run that was saved, and other names of their classes."""
    if "images" not in saved.state:
        raise CheckpointError(
            f"{folder.checkpoint} must be the checkpoint of a run; got another file of newfound; "
            "choose another folder"
        )
    if saved.state["images"] != dataset.fingerprint():
        raise UsageError(
            f"the images must be those that the run began with; those of {folder.path} have changed"
            f"{_then_and_now(saved, dataset.split)}{_written_since(folder, dataset.split)}; bring them back, "
            "or begin a new run"
        )
    if tuple(saved.state["class_names"]) != dataset.class_names:
        raise UsageError(
            f"the classes must have the names that the run began with; those of {folder.path} have changed; "
            "give them back, or begin a new run"
        )


def may_have_changed(folder: Folder, files: Sequence[str]) -> bool:
    """Whether one of them was written after the run began, or after it was told where they are now."""
    known = folder.config.stat().st_mtime
    return any(os.path.isfile(name) and os.stat(name).st_mtime > known for name in files)


def num_images(split: Split) -> tuple[int, int]:
    """Labelled, unlabelled."""
    return len(split.labelled), len(split.unlabelled)


def _then_and_now(saved: Checkpoint, split: Split) -> str:
    """How many images there were and are; nothing of a run that an earlier version saved."""
    if "num_images" not in saved.state:
        return ""
    then, now = (
        f"{labelled:,} labelled and {unlabelled:,} unlabelled"
        for labelled, unlabelled in (saved.state["num_images"], num_images(split))
    )
    return f": {then} then, {now} now"


def _written_since(folder: Folder, split: Split) -> str:
    """The files written after the run began, else those put in their place then; nothing if it is all."""
    began = min(path.stat().st_mtime for path in folder.path.rglob("*") if path.is_file())
    names = [*split.labelled.names, *split.unlabelled.names]
    files = {name: os.stat(name) for name in names if os.path.isfile(name)}  # a benchmark's images have none
    for written in (attrgetter("st_mtime"), attrgetter("st_ctime")):  # the latter changes with links as well
        later = [name for name, found in files.items() if written(found) > began]
        if 0 < len(later) < len(files):
            return f"; written since: {shortened(later)}"
    return ""
