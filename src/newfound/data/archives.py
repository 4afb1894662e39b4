"""Large collections of images, split into parts that are embedded one at a time.

WebDataset's tar files and Hugging Face datasets are read with their own libraries, through fsspec if they are
not on this machine. At most two blocks are in memory: the one in use, and the next.
"""

import tarfile
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from newfound.core.errors import DataError
from newfound.core.files import DATASETS, located, reading
from newfound.core.registry import library
from newfound.data.files import roots_of, unusable
from newfound.data.members import dataset, member_name, read_image
from newfound.data.parquet import opened

ROWS = 4096
"""Images in one part of a dataset or of a list of files."""
BLOCK = 4096
"""Images in one block, at most."""
BLOCK_BYTES = 2**28
"""Their size, at most, unless a single image is larger."""


class Block(NamedTuple):
    """Some images of a part, whose bytes are in memory at the same time."""

    names: Sequence[str]
    contents: Sequence[bytes] | None
    """Their bytes; None if they are files, which are read one by one."""
    last: bool
    """Whether it is the last one of its part."""


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
            for file in expand([{"url": self.name, "stream": stream}], handler=partial(_refuse, self.name)):
                if file and not unusable(name := member_name(file["fname"])):
                    yield f"{self.name}/{name}", file["data"]


def _refuse(name: str, error: Exception) -> bool:
    """Raise an error that webdataset found in a tar file, without the objects that it adds."""
    if isinstance(error, tarfile.TarError):
        raise DataError(f"{name} is not a tar file, or it is cut short.")
    error.args = error.args[:1]
    raise error


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


def read_ahead(parts: Sequence[Part]) -> Generator[Iterator[Block], None, None]:
    """The blocks of each part, in order; while one is in use, the next is read on another thread.

    Blocks of a part that are not taken are passed over.
    """
    reader = _Reader(parts)
    try:
        for _ in parts:
            yield (blocks := reader.part())
            with suppress(DataError):
                deque(blocks, 0)
    finally:
        reader.thread.shutdown(wait=False, cancel_futures=True)


class _Reader:
    """Reads the blocks of parts, one ahead of those that are taken."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = iter(parts)
        self._blocks: Iterator[Block] = iter(())
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="blocks")
        self._next = self.thread.submit(self._read)

    def part(self) -> Iterator[Block]:
        """The blocks of the next part."""
        while block := self._take():
            if block.names:
                yield block
            if block.last:
                return

    def _take(self) -> Block | None:
        """The next block, after which the one behind it is read, even if that is of the next part."""
        try:  # no variable holds the future, whose error would hold it in turn, and so what was read
            return self._next.result()
        finally:
            self._next = self.thread.submit(self._read)

    def _read(self) -> Block | None:
        """The next block of a part, or the first one of the next part; after an error, a part has no more."""
        while (block := next(self._blocks, None)) is None and (part := next(self._parts, None)):
            self._blocks = _blocks(part)
        return block


def _blocks(part: Part) -> Iterator[Block]:
    """The images of a part, some at a time; at least one block, which may be empty."""
    if isinstance(part, Files):
        yield Block(part.paths, None, last=True)
        return
    names, contents, size = list[str](), list[bytes](), 0
    for name, content in part.images():
        if names and (len(names) == BLOCK or size + len(content) > BLOCK_BYTES):
            yield Block(names, contents, last=False)
            names, contents, size = [], [], 0
        names.append(name)
        contents.append(content)
        size += len(content)
    yield Block(names, contents, last=True)


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
