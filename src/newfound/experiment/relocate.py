"""A run whose images have moved."""

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from newfound.core.errors import UsageError
from newfound.core.records import Say
from newfound.engine.checkpoint import Checkpoint
from newfound.engine.files import read_json, write_json
from newfound.experiment.assignments import Assignments
from newfound.experiment.folder import SEEN, Folder, check_apart
from newfound.experiment.same_images import check_images
from newfound.experiment.source import Source


def relocate(
    folder: Folder, labelled: str | None, unlabelled: str | None, say: Say = lambda line: None
) -> None:
    """Tell a run where its own images are now; they must be the same, by the same names.

    The config is written last: whatever happens before, the call can be repeated.
    """
    before = folder.source()
    _check_own(folder, before)
    now = replace(before, labelled=labelled or before.labelled, unlabelled=unlabelled or before.unlabelled)
    _check_there(now)
    check_apart(folder.path, now)
    saved, images = Checkpoint.load(folder.checkpoint), now.load(say)
    pile, finished = images.split.unlabelled.names, folder.assignments.exists()
    if finished:
        novel = folder.read_results()["classes"]["novel"]
        found = Assignments.read(folder.assignments, novel)
        if list(found.images) != list(pile):  # as they are when an earlier call was cut off
            _check_names(before.relative(found.images), now.relative(pile))
    check_images(saved, folder, images)
    others = _others(folder)
    if finished:
        replace(found, images=pile).write(folder.assignments, novel)
    for path in (*others, folder.config):
        content = read_json(path, ("data",), "take another copy of the run")
        data = content["data"] | {"labelled": now.labelled, "unlabelled": now.unlabelled}
        seen = {SEEN: time.time()} if path == folder.config else {}
        write_json(path, content | {"data": data} | seen)


def _check_own(folder: Folder, source: Source) -> None:
    if not source.labelled or not source.unlabelled:
        raise UsageError(
            f"relocate is for runs on own images in files; {folder.path} has none; a benchmark is found with "
            "--data-dir"
        )
    if source.held_out is not None:
        raise UsageError(
            f"relocate takes the run that {folder.path} belongs to; got its trial; name the run, and both "
            "follow"
        )


def _check_there(source: Source) -> None:
    for option in ("labelled", "unlabelled"):
        if not os.path.exists(path := getattr(source, option)):
            raise UsageError(
                f"--{option} must be where the {option} images are; got {path}, which does not exist; check "
                "the path, or give the option too"
            )


def _check_names(before: Sequence[str], now: Sequence[str]) -> None:
    """Rows are only told from each other by their places: these must hold the same images."""
    if list(before) == list(now):
        return
    missing, more = sorted({*before} - {*now}), sorted({*now} - {*before})
    if not missing and not more:
        what = "the same ones in another order"
    else:
        what = ", ".join(
            f"{len(names):,} {kind}, first {names[0]}"
            for kind, names in (("missing", missing), ("more", more))
            if names
        )
    raise UsageError(
        f"the pile must be the one that assignments.csv lists, by the same names and in the same order; got "
        f"{what}; bring it back, or begin a new run"
    )


def _others(folder: Folder) -> list[Path]:
    """The files beside the config that tell where images are, each of which must be readable."""
    found = []
    if folder.trust.config.exists():
        folder.trust.read()
        found.append(folder.trust.config)
    if folder.read_estimate() is not None:
        found.append(folder.estimate)
    return found
