"""Images that are not files of their own: members of WebDataset's tar files, and rows of datasets.

They have paths that everything that reads an image understands: PART.tar/MEMBER, and datasets:NAME:SPLIT/ROW
for a row of a Hugging Face dataset.
"""

import io
import os
import re
import tarfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from posixpath import normpath
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from newfound.core.errors import DataError
from newfound.core.files import DATASETS, open_plain, read_bytes, reading
from newfound.core.registry import library

LABELS = ("label", "class")
"""Names of the column or JSON key that holds the label."""


class Index(NamedTuple):
    """Where the m members of a tar file begin, sorted by key; worker processes share these arrays."""

    keys: npt.NDArray[np.int64]
    """Hashes of their names (m,)."""
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    names: str
    """Their names in order, each followed by a zero."""
    state: tuple[int, int]
    """The size and the time of the tar file."""


_indices: dict[str, Index] = {}


class Images(NamedTuple):
    """A dataset with undecoded images."""

    rows: Any
    """The dataset with only its image column."""
    column: str
    labels: list[str]
    """(n,); empty if there are none."""


def open_image(path: str | Path) -> BinaryIO:
    """Open an image: a file, a URL, a member of a tar file or a row of a dataset."""
    path = str(path)
    is_plain = not (path.startswith(DATASETS) or "://" in path or _tar_of(path))
    return open_plain(path) if is_plain else io.BytesIO(read_image(path))


def read_image(path: str | Path) -> bytes:
    """The bytes of an image: a file, a URL, a member of a tar file or a row of a dataset."""
    path = str(path)
    if path.startswith(DATASETS):
        name, _, row = path.rpartition("/")
        images = dataset(name)
        image = images.rows[int(row)][images.column]
        return (image["bytes"] or read_bytes(image["path"])) if image else b""
    if tar := _tar_of(path):
        place = _place(tar, path)
        if place is None:
            raise FileNotFoundError(2, "No such file in the tar file", path)
        with open_plain(tar) as file:
            file.seek(place[0])
            return file.read(place[1])
    return read_bytes(path)


def size_of(path: str) -> int:
    """The size of an image in bytes."""
    place = _place(tar, path) if (tar := _tar_of(path)) else None
    if place:
        return place[1]
    return len(read_image(path)) if path.startswith(DATASETS) else os.stat(path).st_size


def is_remote(paths: Sequence[str]) -> bool:
    """Whether some of these images are read from other machines."""
    return any("://" in path for path in paths)


def is_there(path: str) -> bool:
    """Whether an image exists, as far as can be told without reading it."""
    if path.startswith(DATASETS) or os.path.isfile(path):
        return True
    tar = _tar_of(path)
    return bool(tar) and _place(tar, path) is not None


def prepare(paths: Iterable[str]) -> None:
    """Index the tar files of images and load their datasets, once for all processes that are forked later."""
    for folder in {os.path.dirname(path) for path in paths}:
        with suppress(DataError):  # reading an image says what is wrong
            if folder.startswith(DATASETS):
                dataset(folder)
            elif (tar := _tar_of(f"{folder}/")) and tar not in _indices:
                indexed(tar)


def indexed(tar: str) -> list[str]:
    """The names of the files in a tar file, in order; remembers them, and where they are for later reads."""
    names, starts, sizes = list[str](), list[int](), list[int]()
    with reading(tar, "a tar file of images", DataError), open_plain(tar) as stream:
        about = os.fstat(stream.fileno())
        state = (about.st_size, about.st_mtime_ns)
        if tar in _indices and _indices[tar].state == state:
            return _indices[tar].names.split("\0")[:-1]
        with tarfile.open(fileobj=stream, mode="r:") as file:
            for member in file:
                if member.isreg():
                    names.append(member_name(member.name))
                    starts.append(member.offset_data)
                    sizes.append(member.size)
                file.members = []  # type: ignore[attr-defined]  # or it would keep all of them
    keys = np.array([*map(hash, names)], np.int64)
    order = keys.argsort(kind="stable")
    text = "".join(f"{name}\0" for name in names)
    _indices[tar] = Index(keys[order], np.array(starts)[order], np.array(sizes)[order], text, state)
    return names


def member_name(name: str) -> str:
    """The normalised name of a file in a tar file, which cannot lead out of it by `..`."""
    return normpath(f"/{name}").lstrip("/")


@cache
def dataset(name: str) -> Images:
    """The Hugging Face dataset with a name such as datasets:beans:train, or in a folder."""
    datasets, given = library("datasets", "datasets"), name.removeprefix(DATASETS)
    place, _, split = given.partition(":") if not os.path.exists(given) else (given, "", "")
    with reading(name, "a dataset that the library datasets can load", DataError):
        found = datasets.load_from_disk(place) if os.path.isdir(place) else datasets.load_dataset(place)
        if isinstance(found, dict):
            found = found[split or next(iter(found))]
        columns = [key for key, kind in found.features.items() if isinstance(kind, datasets.Image)]
        if not columns:
            raise ValueError("it has no column of images")
        named = [key for key, kind in found.features.items() if isinstance(kind, datasets.ClassLabel)]
        named += [key for key in LABELS if key in found.features]
        labels = [label_of(each) for each in found[named[0]]] if named else []
        if named and isinstance(kind := found.features[named[0]], datasets.ClassLabel):
            labels = [kind.names[int(each)] if each not in ("", "-1") else "" for each in labels]
        rows = found.select_columns(columns[:1]).cast_column(columns[0], datasets.Image(decode=False))
        return Images(rows, columns[0], labels)


def _tar_of(path: str) -> str:
    """The local tar file that contains an image; empty if there is none."""
    ends = (found.end() for found in re.finditer(r"\.tar(?=[/\\])", path))
    return next((path[:end] for end in ends if os.path.isfile(path[:end])), "")


def _place(tar: str, path: str) -> tuple[int, int] | None:
    """The offset and size of a file in a tar file."""
    if tar not in _indices:
        indexed(tar)
    index, key = _indices[tar], hash(path[len(tar) + 1 :].replace(os.sep, "/"))
    row = np.searchsorted(index.keys, key)
    if row == len(index.keys) or index.keys[row] != key:
        return None
    return int(index.starts[row]), int(index.sizes[row])


def label_of(given: object) -> str:
    """A label as text, empty for None."""
    return "" if given is None else str(given).strip()
