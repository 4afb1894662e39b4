"""Whether the images are still those that a run began with, and which to look at if they are not."""

from collections.abc import Iterator
from pathlib import Path

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
    """The files that came or changed after the run began; nothing where that is all of them."""
    began = folder.config.stat().st_mtime
    files = dict(_written([*split.labelled.names, *split.unlabelled.names]))
    later = [name for name, when in files.items() if when > began]
    return f"; written since: {shortened(later)}" if 0 < len(later) < len(files) else ""


def _written(names: list[str]) -> Iterator[tuple[str, float]]:
    """When each file was written or put in its place; images of a benchmark have no files of their own."""
    for path in filter(Path.is_file, map(Path, names)):
        found = path.stat()
        yield str(path), max(found.st_mtime, found.st_ctime)
