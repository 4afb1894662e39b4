"""The pile as folders, one for each class."""

import errno
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from PIL import Image

from newfound.core.errors import DataError, UsageError
from newfound.engine.files import atomic_folder
from newfound.review.review import Review

How = Literal["copy", "hardlink", "symlink"]

NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)
"""What a disk says where hard links cannot be."""


def _hard_link(file: Path, place: Path) -> None:
    try:
        os.link(file, place)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        raise UsageError(
            "an export with hard links must be on the disk of the images, which must have such links; "
            f"got: {error.strerror}; choose copy or symlink instead of hardlink"
        ) from None


PLACE: dict[How, Callable[[Path, Path], object]] = {
    "copy": shutil.copy2,
    "hardlink": _hard_link,
    "symlink": lambda file, place: place.symlink_to(file),
}
MOST_BYTES = 240
"""Of a name, so that a number fits in."""


def files_of_pile(review: Review) -> list[Path]:
    """The files of the pile, all of which must still be there."""
    files = [Path(name) for name in review.assignments.images]
    missing = [file for file in files if not file.is_file()]
    if missing:
        own = review.folder.source().unlabelled
        moved = f"newfound relocate {review.folder.quoted} if they moved, or " if own else ""
        raise DataError(
            f"this needs the pile as files, where they were; {len(missing):,} of {len(files):,} images are "
            f"no files there, first {missing[0]}; {moved}export a csv"
        )
    return files


def write_folders(review: Review, out: Path, how: How) -> dict[str, str]:
    """A folder for each class that has images, with these in it; class → folder, where they differ."""
    files, names, ids = files_of_pile(review), review.names, review.ids.tolist()
    filled = [key for key in names if key in set(ids)]
    folders = dict(zip(filled, distinct([safe(names[key]) for key in filled]), strict=True))
    places = distinct([f"{folders[key]}/{file.name}" for key, file in zip(ids, files, strict=True)])
    with atomic_folder(out) as whole:
        for folder in folders.values():
            (whole / folder).mkdir()
        for file, place in zip(files, places, strict=True):
            PLACE[how](file.resolve(), whole / place)
    return {names[key]: folder for key, folder in folders.items() if names[key] != folder}


def safe(name: str) -> str:
    """What the usual file systems take as the name of a folder, and do not hide."""
    text = _cut(re.sub(r'[<>:"/\\|?*\x00-\x1f]', "_", name)).strip(". ")
    reserved = re.fullmatch(r"(?i)con|prn|aux|nul|(com|lpt)\d", text)
    return f"{text}_" if reserved or not text else text


def distinct(names: Sequence[str]) -> list[str]:
    """The same names, numbered where one would come twice, be it in another case."""
    taken: set[str] = set()
    counts: dict[str, int] = {}
    found = []
    for name in names:
        fresh = name
        while fresh.casefold() in taken:
            counts[name] = counts.get(name, 1) + 1
            fresh = _numbered(name, counts[name])
        taken.add(fresh.casefold())
        found.append(fresh)
    return found


def _numbered(name: str, number: int) -> str:
    """`a.png` → `a-2.png`; a name near the limit of file systems gives up its end."""
    path = Path(name)
    ending = path.suffix if path.suffix.lower() in Image.registered_extensions() else ""
    stem = _cut(path.name.removesuffix(ending), len(os.fsencode(ending)))
    return str(path.with_name(f"{stem}-{number}{ending}"))


def _cut(name: str, less: int = 0) -> str:
    """As many characters as fit into `MOST_BYTES`, less some."""
    return os.fsencode(name)[: MOST_BYTES - less].decode(errors="ignore")
