"""A run whose images have moved."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from newfound.core.errors import UsageError
from newfound.data.images import within
from newfound.engine.checkpoint import Checkpoint
from newfound.engine.files import write_json
from newfound.experiment.assignments import Assignments
from newfound.experiment.folder import Folder, check_apart
from newfound.experiment.run import check_images


def relocate(folder: Folder, labelled: str | None, unlabelled: str | None) -> None:
    """Tell a run where its own images are now; they must be the same.

    The config is written last: whatever happens before, the call can be repeated.
    """
    source = folder.source()
    if not source.labelled or not source.unlabelled:
        raise UsageError(
            f"relocate is for runs on own images; {folder.path} has none in files; those on a benchmark take "
            "--data-dir"
        )
    now = replace(source, labelled=labelled or source.labelled, unlabelled=unlabelled or source.unlabelled)
    check_apart(folder.path, now)
    saved, images = Checkpoint.load(folder.checkpoint), now.load()
    check_images(saved, folder, images, images.fingerprint())
    if folder.trust.config.exists():
        folder.trust.read()
    folder.read_estimate()
    if folder.assignments.exists():
        _rename_images(folder, images.split.unlabelled.names)
    for path in (folder.trust.config, folder.estimate, folder.config):
        if path.exists():
            _update(path, {"labelled": now.labelled, "unlabelled": now.unlabelled})


def _rename_images(folder: Folder, images: Sequence[str]) -> None:
    """Only the folder that holds them all may have another name: edits are of images by these names."""
    novel = folder.read_results()["classes"]["novel"]
    found = Assignments.read(folder.assignments, novel)
    for old, new in zip(within(found.images), within(images), strict=True):
        if old != new:
            raise UsageError(
                f"images must have moved together and kept their names; got {new} for {old}; give it back "
                "its name, or begin a new run"
            )
    replace(found, images=images).write(folder.assignments, novel)


def _update(path: Path, where: dict[str, str | None]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    write_json(path, content | {"data": content["data"] | where})
