"""The pile as folders, one for each class."""

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from newfound.core.errors import DataError, RunError
from newfound.review.review import Review

How = Literal["copy", "hardlink", "symlink"]
PLACE: dict[How, Callable[[Path, Path], object]] = {
    "copy": shutil.copy2,
    "hardlink": os.link,
    "symlink": lambda file, place: place.symlink_to(file),
}


def existing(review: Review) -> list[Path]:
    """The files of the pile, all of which must still be there."""
    files = [Path(name) for name in review.assignments.images]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise DataError(
            f"this needs the pile as files, where they were; {len(missing):,} of {len(files):,} images "
            f"are none, first {missing[0]}; bring them back, or export a csv"
        )
    return files


def write_folders(review: Review, out: Path, how: How) -> None:
    """A folder for each class, with its images in it; no name is used twice."""
    files, names, ids = existing(review), review.names, review.ids.tolist()
    folders = dict(zip(names, distinct(safe(name) for name in names.values()), strict=True))
    places = distinct(f"{folders[key]}/{safe(file.name)}" for key, file in zip(ids, files, strict=True))
    with atomic_folder(out) as whole:
        for key in dict.fromkeys(ids):
            (whole / folders[key]).mkdir()
        for file, place in zip(files, places, strict=True):
            PLACE[how](file.resolve(), whole / place)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; rename it when the block succeeds, remove it when it fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        temporary.rename(path)
    except OSError as error:
        raise RunError(
            f"{path} must be a folder that can be filled; got: {error.strerror or error}; free some "
            "space, choose another place, or another --link"
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def safe(name: str) -> str:
    """What every file system takes as the name of a folder or a file."""
    text = re.sub(r'[<>:"/\\|?*\x00-\x1f]', "_", name).rstrip(". ")
    return text or "_"


def distinct(names: Iterable[str]) -> list[str]:
    """The same names, numbered where one would come twice, be it in another case."""
    taken: set[str] = set()
    counts: dict[str, int] = {}
    found = []
    for name in names:
        stem, ending = os.path.splitext(name)
        fresh = name
        while fresh.casefold() in taken:
            counts[name] = counts.get(name, 1) + 1
            fresh = f"{stem}-{counts[name]}{ending}"
        taken.add(fresh.casefold())
        found.append(fresh)
    return found
