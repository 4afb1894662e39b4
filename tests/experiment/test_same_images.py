"""Images that have changed since a run began are named where that can be told."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from newfound.core.errors import UsageError
from newfound.data.images import Dataset, ResidentImages
from newfound.engine.checkpoint import Checkpoint
from newfound.experiment.folder import Folder
from newfound.experiment.same_images import check_images

BEGAN = 2_000_000_000.0
"""Long after any file of a test was put in its place."""


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three images in files, and a run that began after them with an estimate."""
    paths = [tmp_path / f"{row}.png" for row in range(3)]
    run = [tmp_path / "run" / "config.json", tmp_path / "run" / "estimate" / "estimate.json"]
    for when, path in zip((0, 0, 0, 60, 0), paths + run, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, 2 * (BEGAN + when - (path in paths),))
    return paths


def refusal(files: list[Path], digits: Dataset, **saved: object) -> str:
    pixels = digits.split.unlabelled.fetch(digits.split.labels[: len(files)])
    pile = ResidentImages(pixels, [str(path) for path in files])
    task = replace(digits.split.task, num_novel=1)
    changed = replace(digits, split=replace(digits.split, unlabelled=pile, task=task))
    with pytest.raises(UsageError, match="those that the run began with") as caught:
        check_images(
            Checkpoint({}, {}, {"images": "others", **saved}), Folder(files[0].parent / "run"), changed
        )
    return str(caught.value)


def test_a_file_that_was_written_since(files: list[Path], digits: Dataset) -> None:
    """Also while the estimate lasted, after which the config is written."""
    os.utime(files[1], 2 * (BEGAN + 30,))
    assert f"; written since: {files[1]}; bring them back" in refusal(files, digits)


@pytest.mark.parametrize("later", [0, 2, 3])
def test_nothing_is_named_where_no_file_or_most_are_new(
    files: list[Path], digits: Dataset, later: int
) -> None:
    """As most are that were copied to another place."""
    for path in files[:later]:
        os.utime(path, 2 * (BEGAN + 30,))
    assert "written since" not in refusal(files, digits)


def test_copies_of_one_set_do_not_count_beside_the_other(files: list[Path], digits: Dataset) -> None:
    """Labelled images stay, and the pile was copied."""
    for path in files[1:]:
        os.utime(path, 2 * (BEGAN + 30,))
    pixels = digits.split.labelled.fetch(digits.split.labels[:3])
    old = ResidentImages(pixels, 3 * [str(files[0])])
    known = replace(digits, split=replace(digits.split, labelled=old, labels=digits.split.labels[:3]))
    assert "written since" not in refusal(files[1:], known)


def test_numbers_are_told_where_they_differ(files: list[Path], digits: Dataset) -> None:
    labelled = len(digits.split.labelled)
    assert "have changed; bring" in refusal(files, digits, num_images=[labelled, 3])
    assert f"{labelled:,} labelled and 4 unlabelled then, " in refusal(
        files, digits, num_images=[labelled, 4]
    )


def test_an_old_file_that_was_put_in_its_place_since(files: list[Path], digits: Dataset) -> None:
    """Its own time is the old one."""
    for path in files:
        os.utime(path, (0, 0))
    began = max(os.stat(path).st_ctime for path in files)
    for path in (files[0].parent / "run").rglob("*.json"):
        os.utime(path, (began, began))
    while os.stat(files[2]).st_ctime <= began:
        os.utime(files[2], (0, 0))
    assert f"; written since: {files[2]}; bring them back" in refusal(files, digits)
