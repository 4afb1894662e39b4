"""Images that are not in files of their own: in tar files as WebDataset writes them, and in datasets.

Both have paths like those of files, which everything that reads an image understands: PART.tar/MEMBER, and
datasets:NAME:SPLIT/ROW for a row of a Hugging Face dataset.
"""

import io
import os
import re
import tarfile
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
"""What a label is called."""


class Index(NamedTuple):
    """Where the m files in a tar file are, in the order of their keys; workers share these arrays."""

    keys: npt.NDArray[np.int64]
    """(m,) hashes of their names."""
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]


_indices: dict[str, Index] = {}


class Images(NamedTuple):
    """A dataset whose images are not decoded."""

    rows: Any
    """Of its column of images alone."""
    column: str
    labels: list[str]
    """(n,), empty if it has none."""


def open_image(path: str | Path) -> BinaryIO:
    """Open an image, wherever it lies."""
    path = str(path)
    return io.BytesIO(read_image(path)) if path.startswith(DATASETS) or _tar_of(path) else open_plain(path)


def read_image(path: str | Path) -> bytes:
    """The content of an image, wherever it lies."""
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
    """Bytes of an image."""
    place = _place(tar, path) if (tar := _tar_of(path)) else None
    if place:
        return place[1]
    return len(read_image(path)) if path.startswith(DATASETS) else os.stat(path).st_size


def is_there(path: str) -> bool:
    """Whether an image is where its path says, as far as can be told without reading it."""
    if path.startswith(DATASETS) or os.path.isfile(path):
        return True
    tar = _tar_of(path)
    return bool(tar) and _place(tar, path) is not None


def indexed(tar: str) -> list[str]:
    """The files in a tar file, in order; its headers are read, and then each file takes one read."""
    names, starts, sizes = list[str](), list[int](), list[int]()
    with (
        reading(tar, "a tar file of images", DataError),
        open_plain(tar) as stream,
        tarfile.open(fileobj=stream, mode="r:") as file,
    ):
        for member in file:
            if member.isreg():
                names.append(member_name(member.name))
                starts.append(member.offset_data)
                sizes.append(member.size)
            file.members = []  # type: ignore[attr-defined]  # it would keep all of them
    keys = np.array([*map(hash, names)], np.int64)
    order = keys.argsort(kind="stable")
    _indices[tar] = Index(keys[order], np.array(starts)[order], np.array(sizes)[order])
    return names


def member_name(name: str) -> str:
    """Of a file in a tar file; one with .. would be that of another file."""
    return normpath(f"/{name}").lstrip("/")


@cache
def dataset(name: str) -> Images:
    """The Hugging Face dataset of a name such as datasets:beans:train, or of a folder."""
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
    """The tar file on this machine that an image lies in; empty if it lies in none."""
    ends = (found.end() for found in re.finditer(r"\.tar(?=[/\\])", path))
    return next((path[:end] for end in ends if os.path.isfile(path[:end])), "")


def _place(tar: str, path: str) -> tuple[int, int] | None:
    """Where a file begins in a tar file, and how long it is."""
    if tar not in _indices:
        indexed(tar)
    index, key = _indices[tar], hash(path[len(tar) + 1 :].replace(os.sep, "/"))
    row = np.searchsorted(index.keys, key)
    if row == len(index.keys) or index.keys[row] != key:
        return None
    return int(index.starts[row]), int(index.sizes[row])


def label_of(given: object) -> str:
    """As text; None is no label."""
    return "" if given is None else str(given).strip()
