"""Large collections of images, split into parts that are embedded one at a time.

WebDataset's tar files and Hugging Face datasets are read with their own libraries, through fsspec if they are
not on this machine. Only the part that is being read is in memory.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from newfound.core.errors import DataError
from newfound.core.files import DATASETS, located, reading
from newfound.core.registry import library
from newfound.data.files import SUFFIXES, roots_of
from newfound.data.members import dataset, member_name, read_image
from newfound.data.parquet import opened

ROWS = 4096
"""Images in one part of a dataset or of a list of files."""
BLOCK = 4096
"""Images whose bytes are in memory at the same time."""


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

    name: str
    """Its path or URL."""

    def images(self) -> Iterator[tuple[str, bytes]]:
        expand = library("webdataset", "wds").tariterators.tar_file_expander
        with reading(self.name, "a tar file of images", DataError), opened(self.name) as stream:
            for file in expand([{"url": self.name, "stream": stream}]):
                if file and os.path.splitext(file["fname"])[1].lower() in SUFFIXES:
                    yield f"{self.name}/{member_name(file['fname'])}", file["data"]


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
        for number in range(self.first, self.last):
            name = f"{self.dataset}/{number}"
            with reading(name, "an image", DataError):
                yield name, read_image(name)


@dataclass(frozen=True)
class Table:
    """A Parquet file of embeddings, here or in an object store."""

    name: str
    """Its path or URL."""


Part = Files | Tar | Rows
"""Images that are read together, on any machine; `name` identifies the part."""


def blocks(part: Part) -> Iterator[tuple[Sequence[str], Sequence[bytes] | None]]:
    """The names of a part's images, some at a time, with their bytes unless they are local files."""
    if isinstance(part, Files):
        yield part.paths, None
        return
    stream = part.images()
    while block := list(islice(stream, BLOCK)):
        yield [name for name, _ in block], [content for _, content in block]


def parts_of(images: str) -> Sequence[Part] | None:
    """The parts of tar files or of a dataset; None for a folder, a CSV or a list of plain files.

    Tar files are given as a folder, a single file, or a pattern such as s3://bucket/part-{000..123}.tar.
    """
    roots = roots_of(located(images))
    if roots is None:
        return None
    if not images.startswith(DATASETS):
        return [*map(Tar, roots)]
    number = len(dataset(roots[0]).rows)
    return [Rows(roots[0], first, min(first + ROWS, number)) for first in range(0, number, ROWS)]
