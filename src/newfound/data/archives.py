"""Images that are not in files of their own, in parts that are embedded one at a time.

Tar files as WebDataset writes them, and Hugging Face datasets, are read with their own libraries, through
fsspec where they are not on this machine. Only the part that is being read is in memory.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from posixpath import normpath
from typing import Any

from newfound.core.errors import DataError
from newfound.core.files import read_bytes, reading
from newfound.core.registry import library
from newfound.data.decode import digest_of
from newfound.data.files import SUFFIXES
from newfound.data.parquet import opened

DATASETS = "datasets:"
"""Before the name or the folder of a Hugging Face dataset, and perhaps its split: datasets:beans:train."""
ROWS = 4096
"""Of a part of a dataset, or of a list of files."""


@dataclass(frozen=True)
class Files:
    """Some image files."""

    paths: Sequence[str]

    @property
    def name(self) -> str:
        return "\0".join(self.paths)


@dataclass(frozen=True)
class Tar:
    """A tar file, here or in an object store."""

    url: str

    @property
    def name(self) -> str:
        return self.url

    def images(self) -> Iterator[tuple[str, bytes]]:
        expand = library("webdataset", "wds").tariterators.tar_file_expander
        with reading(self.url, "a tar file of images", DataError), opened(self.url) as stream:
            for file in expand([{"url": self.url, "stream": stream}]):
                if file and os.path.splitext(file["fname"])[1].lower() in SUFFIXES:
                    # A name with .. would be that of another file.
                    yield self.url + normpath(f"/{file['fname']}"), file["data"]


@dataclass(frozen=True)
class Rows:
    """Some rows of a Hugging Face dataset."""

    dataset: str
    first: int
    last: int

    @property
    def name(self) -> str:
        return f"{self.dataset}/{self.first}"

    def images(self) -> Iterator[tuple[str, bytes]]:
        rows, column = _dataset(self.dataset)
        for number in range(self.first, self.last):
            name, image = f"{self.dataset}/{number}", rows[number][column]
            with reading(name, "an image", DataError):
                content = (image["bytes"] or read_bytes(image["path"])) if image else b""
            yield name, content


Part = Files | Tar | Rows
"""What is embedded together, anywhere; `name` identifies it."""


def parts_of(images: str) -> Sequence[Part] | None:
    """The parts of tar files or of a dataset; None for a folder, a CSV or a list of plain files.

    Tar files are a folder of them, one of them, or a pattern such as s3://bucket/part-{000..123}.tar.
    """
    if images.startswith(DATASETS):
        name = images.removeprefix(DATASETS)
        number = len(_dataset(name)[0])
        return [Rows(name, first, min(first + ROWS, number)) for first in range(0, number, ROWS)]
    urls = [images]
    if os.path.isdir(images):
        urls = sorted(map(str, Path(images).glob("*.tar")))
    elif "{" in images:
        urls = list(library("braceexpand", "wds").braceexpand(images))
    if not urls or not all(url.endswith(".tar") for url in urls):
        return None
    return [Tar(url if "://" in url else os.path.abspath(url)) for url in urls]


@lru_cache(1)
def _dataset(name: str) -> tuple[Any, str]:
    """A dataset whose images are not decoded, and the column that has them."""
    datasets = library("datasets", "datasets")
    place, _, split = name.partition(":") if not os.path.exists(name) else (name, "", "")
    with reading(name, "a dataset that the library datasets can load", DataError):
        found = datasets.load_from_disk(place) if os.path.isdir(place) else datasets.load_dataset(place)
        if isinstance(found, dict):
            found = found[split or next(iter(found))]
        columns = [key for key, kind in found.features.items() if isinstance(kind, datasets.Image)]
        if not columns:
            raise ValueError("it has no column of images")
        return found.cast_column(columns[0], datasets.Image(decode=False)), columns[0]


def file_of(part: Part) -> str:
    """The Parquet file of a part."""
    return f"embeddings-{digest_of(part.name.encode())[:16]}.parquet"
