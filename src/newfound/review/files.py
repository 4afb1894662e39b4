"""The pile as folders, one for each class."""

import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from newfound.core.errors import DataError
from newfound.engine.files import atomic_folder
from newfound.review.review import Review

How = Literal["copy", "hardlink", "symlink"]
PLACE: dict[How, Callable[[Path, Path], object]] = {
    "copy": shutil.copy2,
    "hardlink": os.link,
    "symlink": lambda file, place: place.symlink_to(file),
}
LONGEST = 100
"""Characters of a folder's name."""


def files_of_pile(review: Review) -> list[Path]:
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
    files, names, ids = files_of_pile(review), review.names, review.ids.tolist()
    folders = dict(zip(names, distinct(safe(name) for name in names.values()), strict=True))
    places = distinct(f"{folders[key]}/{file.name}" for key, file in zip(ids, files, strict=True))
    with atomic_folder(out) as whole:
        for key in dict.fromkeys(ids):
            (whole / folders[key]).mkdir()
        for file, place in zip(files, places, strict=True):
            PLACE[how](file.resolve(), whole / place)


def safe(name: str) -> str:
    """What the usual file systems take as the name of a folder."""
    text = re.sub(r'[<>:"/\\|?*\x00-\x1f]', "_", name)[:LONGEST].rstrip(". ")
    reserved = re.fullmatch(r"(?i)con|prn|aux|nul|(com|lpt)\d", text)
    return f"{text}_" if reserved or not text else text


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
