"""A user's own images: some labelled, and a pile of which nobody knows the classes."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from newfound.core.errors import DataError, shortened
from newfound.core.paths import checked_path
from newfound.core.records import Say, Task
from newfound.data.assemble import checked_num_novel, is_one_line, own_dataset, own_look
from newfound.data.decode import decode_each, stored_sizes
from newfound.data.files import (
    labelled_files,
    none_readable,
    once,
    open_images,
    other_kinds,
    unlabelled_files,
)
from newfound.data.images import Dataset, ImageSet, Split
from newfound.data.lists import LABEL_COLUMNS, File
from newfound.data.reading import Reading
from newfound.data.sizes import check_side, choose_side
from newfound.data.subsets import check_subset, rank_in_class


def load_own(
    labelled: str | Path,
    unlabelled: str | Path,
    num_novel: int,
    size: int | None = None,
    strict: bool = False,
    subset: int | None = None,
    say: Say = print,
) -> Dataset:
    """Class folders or a CSV, and a folder, CSV or list of unlabelled files → a data set without truth.

    A row of the labelled CSV without a label joins the pile, so one CSV may be given as both. `subset` keeps
    the first images of each known class, and as many for each novel class at even steps through the pile.
    How reading goes is told to `say` where it takes long.
    """
    # Whole paths, so that files have the same names from wherever they are loaded again.
    labelled = Path(os.path.abspath(checked_path(labelled, "labelled")))
    unlabelled = Path(os.path.abspath(checked_path(unlabelled, "unlabelled")))
    num_novel = checked_num_novel(num_novel)
    check_subset(subset)
    known, pile, left_out = _files(labelled, unlabelled, strict)
    _check_names(known)
    _check_apart(known, pile)
    known, known_again = once(known)
    pile, pile_again = once(pile)
    if subset is not None:
        ranks = rank_in_class(np.array([label for _, label in known]))
        known = [file for file, rank in zip(known, ranks, strict=True) if rank < subset]
        pile = _evenly(pile, subset * num_novel)

    paths, pile_paths = [path for path, _ in known], [path for path, _ in pile]
    side, why = _side(paths + pile_paths, size)
    reading = Reading(len(paths) + len(pile_paths), say)
    known_images, kept, known_skipped = open_images(paths, (side, side), strict, reading)
    pile_images, _, pile_skipped = open_images(pile_paths, (side, side), strict, reading)
    names, labels = np.unique([known[row][1] for row in kept], return_inverse=True)
    task = Task(len(names), num_novel)
    split = Split(known_images, torch.from_numpy(labels), pile_images, task, own_look(side))
    # what stands for many files first: where the list is cut, it is cut at its end
    others = (*other_kinds(labelled), *other_kinds(unlabelled))
    skipped = (*others, *left_out, *known_again, *pile_again, *known_skipped, *pile_skipped)
    origin = {
        "labelled": str(labelled),
        "unlabelled": str(unlabelled),
        "num_novel": num_novel,
        "size": size and int(size),
        "strict": bool(strict),
        "subset": subset and int(subset),
    }
    found = own_dataset(labelled.name, split, names.tolist(), skipped, why)
    gone = sorted({label for _, label in known} - set(names.tolist()))
    return replace(found, origin=origin, warnings=reading.warnings + _gone(gone) + found.warnings)


def _gone(classes: Sequence[str]) -> tuple[str, ...]:
    if not classes:
        return ()
    return (f"known classes without an image that can be read are left out: {shortened(classes)}",)


def load_pile(
    path: Path, size: int, strict: bool, say: Say = lambda line: None
) -> tuple[ImageSet, tuple[str, ...]]:
    """A folder, CSV, list of files or one image → images of `size` x `size`, and the files left out."""
    files, again = once(unlabelled_files(path, "new"))
    reading = Reading(len(files), say)
    images, _, skipped = open_images([file for file, _ in files], (size, size), strict, reading)
    for warning in reading.warnings:
        say(f"warning: {warning}")
    return images, (*other_kinds(path), *again, *skipped)


def _files(labelled: Path, unlabelled: Path, strict: bool) -> tuple[list[File], list[File], tuple[str, ...]]:
    files, left_out = labelled_files(labelled)
    if strict and left_out:
        raise DataError(f"{left_out[0]}; nothing may be left out with strict; mend it, or drop strict")
    known = [file for file in files if file[1]]
    pile = [file for file in files if not file[1]]
    if not known:
        raise DataError(
            f"{labelled} must give some images a label, in the second column or in one called "
            f"{' or '.join(LABEL_COLUMNS)}; got {len(pile)} rows without; fill some in, or rename the column"
        )
    if not (labelled.is_file() and unlabelled.exists() and unlabelled.samefile(labelled)):
        pile += unlabelled_files(unlabelled)
    if not pile:
        raise DataError(f"{unlabelled} must hold images without a label; got none; leave some labels empty")
    return known, pile, left_out


def _check_names(known: Sequence[File]) -> None:
    for label, path in {label: path for path, label in known}.items():
        if not is_one_line(label):
            raise DataError(
                f"the name of a known class must be one line without control characters; got {label!r} for "
                f"{path!r}; rename the class"
            )


def _check_apart(known: Sequence[File], pile: Sequence[File]) -> None:
    overlap = sorted({label for _, label in known} & {label for _, label in pile})
    if overlap:
        raise DataError(
            f"known and novel classes must not overlap; got {overlap[0]!r} both as a label and as the class "
            "of an unlabelled image; leave those images out or label them"
        )
    labels: dict[Path, str] = {}
    for path, label in known:
        first = labels.setdefault(Path(path).resolve(), label)
        if first != label:
            raise DataError(
                f"an image must have one label; got {first!r} and {label!r} for {path}; keep the right one"
            )
    known_paths = labels.keys()
    both = [path for path, _ in pile if Path(path).resolve() in known_paths]
    if both:
        raise DataError(
            f"an image must be labelled or unlabelled; got {len(both)} as both, first {both[0]}; "
            "keep the unlabelled images in a place of their own"
        )


def _evenly(files: Sequence[File], number: int) -> list[File]:
    """At most `number` files at even steps, since the pile may be sorted."""
    number = min(number, len(files))
    return [files[row * len(files) // number] for row in range(number)]


def _side(paths: Sequence[str], asked: int | None) -> tuple[int, str]:
    if asked is not None:
        return check_side(asked), "as asked"
    sizes = [size for size in stored_sizes(paths) if size is not None]
    if not sizes:
        raise none_readable(decode_each(paths, (1, 1), False, lambda row, image: None)[1])
    return choose_side(sizes)
