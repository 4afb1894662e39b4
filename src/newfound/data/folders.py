"""Data sets from a user's own image files: folders, CSV files and lists."""

import logging
import os
from collections.abc import Iterable, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge, Le
from pydantic import BaseModel

from newfound.core import dist
from newfound.core.calls import public
from newfound.core.errors import DataError, Hint, RunError, UsageError, shortened
from newfound.core.files import DATASETS, AnyPath, AnyPlace, free_memory, located, read_record, write_record
from newfound.core.settings import Positive
from newfound.core.source import UNSORTED, PileKind, Source
from newfound.data.dataset import (
    LARGEST,
    SMALLEST,
    Dataset,
    Split,
    choose_side,
    own_dataset,
    own_look,
    rank_in_class,
)
from newfound.data.decode import Reading, Size, check_any_read, decode_all, stored_sizes
from newfound.data.files import (
    File,
    distinct,
    labelled_files,
    other_files,
    remote_files,
    roots_of,
    unlabelled_files,
)
from newfound.data.images import ImageSet, ResidentImages, StreamedImages
from newfound.data.members import is_there, prepare, size_of
from newfound.data.vectors import Frozen, vector_look

log = logging.getLogger(__name__)
RESIDENT_BYTES = 16 * 2**30
"""Sets with more bytes of pixels are streamed,"""
RESIDENT_SHARE = 0.4
"""and those that would take more than this share of the free memory in all processes together."""
NO_CLASS = ("", UNSORTED)
"""Images with these labels join the pile."""
SOME, MANY = 200, 10_000
"""How many files are looked at to guess the usual image size, and at most how many to choose a size."""


@public
def from_folders(
    labelled: AnyPlace,
    unlabelled: AnyPlace,
    num_novel: Positive | None = None,
    *,
    pile: PileKind | None = None,
    size: Annotated[int, Ge(SMALLEST), Le(LARGEST)] | None = None,
    strict: bool = False,
    subset: Positive | None = None,
    frozen: Frozen | None = None,
    unread: bool = False,
    cache: AnyPath | None = None,
) -> Dataset:
    """A data set of a user's own image files; nothing is known about the classes of the unlabelled ones.

    `labelled` is a folder with one subfolder per class, or a CSV. Rows without a label, or with the label
    `unsorted`, join the unlabelled images, so one CSV can be both. `unlabelled` is a folder of any structure,
    a CSV, or a list of files. Either can also be tar files as WebDataset writes them (a folder of them, or
    `part-{000..123}.tar`) or a Hugging Face dataset (`datasets:NAME:SPLIT`).

    `num_novel` is None if it is unknown. `pile` is "mixed" if unlabelled images may belong to known classes,
    "novel" if not; the default is that of the method's paper. `size` is the side that images are resized to;
    the default depends on their sizes. With `strict`, a file that cannot be read is an error. `subset` keeps
    that many images of each known class, and as many per novel class, at even steps through the unlabelled
    images. A `frozen` encoder turns the images into vectors. `unread` files are not checked, and decoded when
    they are used. Sets too large for memory are checked for damaged files; the folder `cache` remembers the
    result, so that the same files are not checked again.
    """
    # Absolute paths, so that files have the same names from any working directory.
    places = located(str(labelled)), located(str(unlabelled))
    check_here(places)
    labelled, unlabelled = map(Path, places)
    if subset and num_novel is None:
        raise UsageError("A subset of your own images needs the number of novel classes.", Hint.NUM_NOVEL)
    known, others, skipped = _distinct_files(labelled, unlabelled, pile)
    check_here(path for path, _ in (*known, *others))
    if subset and num_novel:
        known, others = _subset(known, others, subset, num_novel)
    paths, pile_paths = [path for path, _ in known], [path for path, _ in others]
    prepare(paths + pile_paths)
    if frozen is None:
        side, reason = _side(paths + pile_paths) if size is None else (size, "as requested")
        reading, look = Reading(len(paths) + len(pile_paths)), own_look(side)
        opened = partial(
            open_images,
            size=(side, side),
            strict=strict,
            reading=reading,
            unread=unread,
            cache=cache,
            resident=is_resident(len(paths) + len(pile_paths), (side, side)),
        )
        known_images, kept, known_skipped = opened(paths)
        pile_images, _, pile_skipped = opened(pile_paths)
        skipped_images, warnings = [*known_skipped, *pile_skipped], reading.warnings
    else:
        images, rows, skipped_images = frozen.files(paths + pile_paths, strict)
        kept = [row for row in rows if row < len(paths)]
        known_images, pile_images = map(images.select, torch.arange(len(rows)).tensor_split([len(kept)]))
        look, reason, warnings = vector_look(images.pixels.shape[-1]), "", []
    names, labels = np.unique([known[row][1] for row in kept], return_inverse=True)
    sets = known_images, torch.from_numpy(labels), pile_images
    split = Split(*sets, len(names), num_novel, look, pile or "novel")
    if gone := sorted({label for _, label in known} - set(names.tolist())):
        warnings.append(f"Known classes without a readable image were left out: {shortened(gone)}.")
    source = Source(labelled=str(labelled), unlabelled=str(unlabelled), num_novel=num_novel, subset=subset)
    source = source.model_copy(update={"pile": pile, "size": size, "strict": bool(strict)})
    left_out = [*skipped, *skipped_images]
    return own_dataset("your images", split, names.tolist(), reason, warnings, left_out, source)


def check_here(places: Iterable[str]) -> None:
    """Refuse remote images, which training would read again and again."""
    if remote := next((place for place in places if "://" in place), None):
        raise DataError(f"{remote} is not on this machine.", Hint.REMOTE)


def _subset(
    known: Sequence[File], others: Sequence[File], subset: int, num_novel: int
) -> tuple[list[File], list[File]]:
    """`subset` files of each known class, and as many per novel class."""
    ranks = rank_in_class(np.array([label for _, label in known]))
    first = [file for file, rank in zip(known, ranks, strict=True) if rank < subset]
    number = min(subset * num_novel, len(others))  # at even steps, because files may be sorted by class
    return first, [others[row * len(others) // number] for row in range(number)]


def usual_side(source: Source) -> int:
    """The side that a user's own images get by default, judging by some of them."""
    if not source.labelled or not source.unlabelled:
        return 0
    check_here((source.labelled, source.unlabelled))
    places = (("labelled", source.labelled), ("unlabelled", source.unlabelled))
    paths = [path for role, place in places for path, _ in unlabelled_files(Path(place), role)]
    return _side(paths[:: max(len(paths) // SOME, 1)])[0]


def _side(paths: Sequence[str]) -> tuple[int, str]:
    """The side that fits these files, or of very many some, and the reason.

    If none can be read, decoding says why.
    """
    some = paths[:: max(len(paths) // MANY, 1)]
    return choose_side([each for each in stored_sizes(some) if each] or [(SMALLEST, SMALLEST)])


def load_pile(
    place: Path | str, size: int, strict: bool, crop: bool = False, frozen: Frozen | None = None
) -> tuple[ImageSet, tuple[str, ...]]:
    """Images of side `size` from a folder, a CSV, a list of files or one image, and the files left out.

    They may be remote. A `frozen` encoder turns the images into vectors.
    """
    paths, left_out = pile_files(place)
    images: ImageSet
    reading = Reading(len(paths))
    if frozen:
        images, _, skipped = frozen.files(paths, strict)
    else:
        images, _, skipped = open_images(paths, (size, size), strict, reading, crop)
    for warning in reading.warnings:
        log.warning(warning)
    return images, (*left_out, *skipped)


def pile_files(place: Path | str) -> tuple[list[str], list[str]]:
    """The distinct files of a folder, a CSV or a list, or one image, and what was left out and why.

    All of them may be remote.
    """
    if found := remote_files(str(place)):
        return found
    files, repeated = distinct(unlabelled_files(place, "new"))
    paths = [path for path, _ in files.values()]
    prepare(paths)
    return paths, [*other_files(Path(place)), *_repeated(repeated)]


def open_images(
    paths: Sequence[str],
    size: Size,
    strict: bool,
    reading: Reading | None = None,
    crop: bool = False,
    unread: bool = False,
    cache: str | Path | None = None,
    resident: bool | None = None,
) -> tuple[ImageSet, list[int], list[str]]:
    """The set of the files that can be decoded, their rows in `paths`, and the files left out.

    They are kept in memory if `resident` says so; by default, if they fit by themselves.
    """
    if unread:
        return StreamedImages(paths, size, crop=crop, checked=False), list(range(len(paths))), []
    images: ImageSet
    if is_resident(len(paths), size) if resident is None else resident:
        pixels, kept, skipped = decode_all(paths, size, strict, reading, crop=crop)
        images = ResidentImages(pixels, [paths[row] for row in kept])
    else:
        kept, skipped = check_files(paths, strict, reading or Reading(len(paths)), cache)
        images = StreamedImages([paths[row] for row in kept], size, crop=crop)
    check_any_read(kept, skipped)
    return images, kept, skipped


def check_files(
    paths: Sequence[str], strict: bool, reading: Reading, cache: str | Path | None
) -> tuple[list[int], list[str]]:
    """The rows of the files that can be decoded, and the other files with the reason.

    If `cache` remembers these files, only those that could not be decoded are tried again.
    """
    record = Path(cache) / f"checked-{_digest_of(paths)}.json" if cache else None
    before = _remembered(record) if record else None
    rows = range(len(paths)) if before is None else before.damaged
    if before:
        reading.peaks += before.peaks
    old = len(reading.peaks)
    # Any size will do, and a JPEG is decoded fastest at an eighth of its own.
    _, kept, failed = decode_all([paths[row] for row in rows], (1, 1), strict, reading, keep=False)
    damaged = sorted({*rows} - {rows[place] for place in kept})
    if record and before is None and len(damaged) < len(paths):
        try:
            write_record(record, Checked(damaged=damaged, peaks=reading.peaks[old:]))
        except RunError as error:
            log.warning("%s The files will be checked again.", error)
    left_out = set(damaged)
    return [row for row in range(len(paths)) if row not in left_out], failed


class Checked(BaseModel):
    """What is remembered of files beyond memory."""

    damaged: list[int]
    """Rows that could not be decoded."""
    peaks: list[int]
    """The largest value of each grey file with more than 8 bits."""


def _remembered(record: Path) -> Checked | None:
    if not record.exists():
        return None
    try:
        return read_record(record, Checked)
    except RunError as error:
        log.warning("%s The files are checked again.", error)
        return None


def _digest_of(paths: Sequence[str]) -> str:
    """A digest of the paths and sizes of files; the rows of a dataset do not change."""
    digest = blake2b(digest_size=16)
    for path in paths:
        size = size_of(path) if is_there(path) and not path.startswith(DATASETS) else ""
        digest.update(f"{path}\0{size}\0".encode())
    return digest.hexdigest()


def is_resident(count: int, size: Size) -> bool:
    """Whether this many images are kept in memory."""
    share = RESIDENT_SHARE / dist.on_this_machine()
    return 3 * count * size[0] * size[1] <= min(RESIDENT_BYTES, share * free_memory())


def _distinct_files(
    labelled: Path, unlabelled: Path, kind: PileKind | None
) -> tuple[list[File], list[File], list[str]]:
    """Labelled files, unlabelled files, and what was left out and why. No file occurs twice."""
    files, left_out = labelled_files(labelled)
    named = [file for file in files if file[1] not in NO_CLASS]
    pile = [(path, "") for path, label in files if label in NO_CLASS]
    if not named:
        raise DataError(
            f"{labelled} labels no image. Labels are the second column, or the column label or class; in tar "
            "files a .cls or .json file beside an image, or its folder."
        )
    both = labelled.is_file() and os.path.exists(unlabelled) and unlabelled.samefile(labelled)
    if not both and (labelled != unlabelled or roots_of(str(labelled)) is None):
        pile += unlabelled_files(unlabelled)
    overlap = sorted({label for _, label in named} & {label for _, label in pile})
    if overlap and kind == "novel":
        raise DataError(f"{overlap[0]!r} is a known class, and also the class of an unlabelled image.")
    known, known_again = distinct(named)
    unknown, unknown_again = distinct(pile)
    conflicts = [path for (path, label), (_, first) in known_again if label != first]
    conflicts += [path for real, (path, _) in unknown.items() if real in known]
    if conflicts:
        raise DataError(
            f"An image has one label or none, but {len(conflicts):,} are in two known classes, or labelled "
            f"and unlabelled. The first is {conflicts[0]}."
        )
    # Lines that summarise many files come first, because long lists are cut off at the end.
    skipped = [*other_files(labelled), *other_files(unlabelled), *left_out]
    skipped += [*_repeated(known_again), *_repeated(unknown_again)]
    return list(known.values()), list(unknown.values()), skipped


def _repeated(pairs: Sequence[tuple[File, File]]) -> list[str]:
    return [f"{path}: the same file as {first}" for (path, _), (first, _) in pairs]
