"""Whether the images are still those that a run began with, and which to look at if they are not."""

import os
from collections.abc import Sequence

from newfound.core.errors import CheckpointError, UsageError, shortened
from newfound.data.images import Dataset, ImageSet, Split
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
    """Whether one of them was written, or put there, since they were last seen to be the right ones."""
    seen, found = folder.images_seen, (os.stat(name) for name in files if os.path.isfile(name))
    return any(max(each.st_mtime, each.st_ctime) > seen for each in found)


def num_images(split: Split) -> tuple[int, int]:
    """Labelled, unlabelled."""
    return len(split.labelled), len(split.unlabelled)


def _then_and_now(saved: Checkpoint, split: Split) -> str:
    """How many images there were and are, where that differs; a run of an earlier version does not say."""
    now = num_images(split)
    then = tuple(saved.state.get("num_images", now))
    if then == now:
        return ""
    told = [f"{labelled:,} labelled and {unlabelled:,} unlabelled" for labelled, unlabelled in (then, now)]
    return f": {told[0]} then, {told[1]} now"


def _written_since(folder: Folder, split: Split) -> str:
    """The files written after the run began, else those put in their place then."""
    began = min(path.stat().st_mtime for path in folder.path.rglob("*") if path.is_file())
    for time in ("st_mtime", "st_ctime"):  # the latter changes with links as well
        if later := [*_later(split.labelled, time, began), *_later(split.unlabelled, time, began)]:
            return f"; written since: {shortened(later)}"
    return ""


def _later(images: ImageSet, time: str, began: float) -> list[str]:
    """The files with a later time; none where most have, since then they were copied rather than changed."""
    files = [name for name in images.names if os.path.isfile(name)]  # a benchmark's images have none
    later = [name for name in files if getattr(os.stat(name), time) > began]
    return later if 2 * len(later) <= len(files) else []
