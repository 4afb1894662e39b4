"""Parquet files of embeddings, with a path and a vector or several views in each row, or of predictions."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate, count
from pathlib import Path
from typing import Any, Protocol, TypeVar

import fsspec
import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, TypeAdapter

from newfound.core.errors import DataError, Hint, UsageError
from newfound.core.files import DATASETS, atomic, located, open_plain, read_bytes, reading
from newfound.core.registry import library
from newfound.core.source import EncoderVersion


class Named(Protocol):
    """A part, identified by its name."""

    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=Named)
Floats = npt.NDArray[np.floating]
Rows = npt.NDArray[np.int64]
ROWS = 4096
"""Rows in a file, unless writing is interrupted."""
KEY = b"newfound"
"""The metadata key under which a file says how it was made."""
REPEATED = ("encoder", "class", "kind", "nearest")
"""Columns with few values."""
MANIFEST = "manifest.json"
"""The file in an object store that lists the files that belong together."""


class Made(BaseModel, extra="forbid", frozen=True):
    """How vectors were made."""

    encoder: EncoderVersion
    views: int

    def differences(self, other: "Made") -> list[str]:
        """What differs from `other`, such as `encoder=lite0`, `views=2`."""
        mine, others = ({**each.encoder.model_dump(), "views": each.views} for each in (self, other))
        return [f"{key}={value}" for key, value in mine.items() if others[key] != value]


class Answered(BaseModel, extra="forbid", frozen=True):
    """Which run, in which state of its review, classified images."""

    run: str
    """A digest."""


MADE: TypeAdapter[Made | Answered] = TypeAdapter(Made | Answered)


class Manifest(BaseModel, extra="forbid"):
    """What a call left in an object store; files that were still being written are not listed."""

    made: Made | Answered
    files: list[str]


class PartFolder(ABC):
    """A folder of Parquet files, or its fsspec URL; a file appears once it is complete."""

    stem: str
    """The prefix of its file names."""

    def __init__(self, folder: str | Path, made: Made | Answered) -> None:
        """Refuse files that were made in another way."""
        self.folder, self.made = str(folder), made
        self.files = parquet_files(self.folder)
        manifest = _manifest(self.folder) if "://" in self.folder else None
        listed = {*manifest.files} if manifest else set[str]()
        # If some have been removed, others may have taken their names.
        stale = not listed <= {*map(os.path.basename, self.files)}
        others = [path for path in self.files if stale or os.path.basename(path) not in listed]
        with ThreadPoolExecutor() as threads:
            found = [*threads.map(_made, others)]
        if manifest and len(others) < len(self.files):
            found.append(manifest.made)
        if conflict := next(filter(None, map(self._conflict, found)), ""):
            raise UsageError(f"{folder} holds {conflict}.", Hint.NEW_FOLDER)
        if stale:
            self.finish()

    @abstractmethod
    def _conflict(self, found: Made | Answered | None) -> str:
        """What a file holds if it was made in another way; empty if it was made in the same way."""

    def names(self) -> Iterator[str]:
        """The absolute path of every image in it."""
        for path in self.files:
            with _parquet(path) as file:
                yield from (located(name, self.folder) for name in _texts(file, file.schema_arrow.names[0]))

    def missing(self, parts: Sequence[P]) -> list[P]:
        """The parts that have no file yet."""
        there = {os.path.basename(path) for path in self.files}
        return [part for part in parts if self.file_of(part) not in there]

    def file_of(self, part: Named) -> str:
        """The file name of a part."""
        return f"{self.stem}-{blake2b(part.name.encode(), digest_size=16).hexdigest()[:16]}.parquet"

    def put(self, name: str, columns: Mapping[str, object]) -> str:
        """Write columns as the file `name`; returns its path."""
        pa, path = import_pyarrow(), os.path.join(self.folder, name)
        table = pa.table(columns).replace_schema_metadata({KEY: self.made.model_dump_json()})
        repeated = [column for column in columns if column in REPEATED]
        if "://" in path:
            whole = pa.BufferOutputStream()
            pa.parquet.write_table(table, whole, use_dictionary=repeated)
            _put(path, whole.getvalue().to_pybytes())
        else:
            with atomic(Path(path)) as temporary:
                pa.parquet.write_table(table, temporary, use_dictionary=repeated)
        return path

    def finish(self) -> None:
        """In an object store, list the files there are now."""
        if "://" in self.folder:
            files = [os.path.basename(path) for path in parquet_files(self.folder)]
            manifest = Manifest(made=self.made, files=files)
            _put(os.path.join(self.folder, MANIFEST), manifest.model_dump_json(indent=2).encode())

    def relative(self, name: str) -> str:
        """The path of an image relative to the files, so that both can move together."""
        if "://" in name + self.folder or name.startswith(DATASETS):
            return name
        try:
            return os.path.relpath(name, self.folder)
        except ValueError:  # another drive on Windows
            return os.path.abspath(name)


class Shards(PartFolder):
    """Embeddings: path, embedding, encoder, digest of the image file.

    The embedding of an image is a list of D numbers, or with several views a list of V such lists, all in
    float16.
    """

    stem = "embeddings"
    made: Made

    def __init__(self, folder: str | Path, made: Made) -> None:
        """Refuse vectors that were made in another way."""
        super().__init__(folder, made)
        self._names: list[str] = []
        self._vectors: list[Floats] = []
        self._digests: list[str] = []

    def _conflict(self, found: Made | Answered | None) -> str:
        if not isinstance(found, Made):
            return "Parquet files that are not embeddings by newfound"
        differing = found.differences(self.made)
        return f"embeddings with {', '.join(differing)}" if differing else ""

    def add(self, names: Sequence[str], vectors: Floats, digests: Sequence[str]) -> None:
        """Add images with their vectors (n, V, D); writes a file once there are enough."""
        self._names += names
        self._vectors.append(vectors)
        self._digests += digests
        if len(self._names) >= ROWS:
            self.write()

    def write(self) -> None:
        """Write the images added since the last file, if any, to a new one."""
        if not self._names:
            return
        names = (f"embeddings-{number:05}.parquet" for number in count(len(self.files)))
        name = next(name for name in names if not os.path.exists(os.path.join(self.folder, name)))
        self.files.append(self.publish(name, self._names, np.concatenate(self._vectors), self._digests))
        self._names, self._vectors, self._digests = [], [], []

    def publish(self, name: str, images: Sequence[str], vectors: Floats, digests: Sequence[str]) -> str:
        """Write images with their vectors (n, V, D) as the file `name`."""
        pa = import_pyarrow()
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[2])
        if self.made.views > 1:
            column = pa.FixedSizeListArray.from_arrays(column, self.made.views)
        paths, encoder = [*map(self.relative, images)], [str(self.made.encoder)] * len(images)
        return self.put(
            name, {"path": paths, "embedding": column, "encoder": encoder, "digest": list(digests)}
        )


class Answers(PartFolder):
    """The classes of new images: the columns of the assignments."""

    stem = "predictions"

    def _conflict(self, found: Made | Answered | None) -> str:
        return "" if found == self.made else "Parquet files that are not predictions of this run and review"


def _manifest(folder: str) -> Manifest | None:
    """What the last call left in an object store, if it says so."""
    try:
        return Manifest.model_validate_json(read_bytes(os.path.join(folder, MANIFEST)))
    except (OSError, ValueError):
        return None


def parquet_files(folder: str) -> list[str]:
    """The Parquet files in a folder, or below a URL."""
    if "://" not in folder:
        return sorted(map(str, Path(folder).glob("*.parquet")))
    return matching(f"{folder}/*.parquet")


def matching(url: str) -> list[str]:
    """The files in an object store whose URL matches one with `*`, or that are below a folder."""
    base = url.partition("*")[0].rstrip("/")
    with reading(url, "an address that fsspec can list", DataError):
        system, pattern = fsspec.core.url_to_fs(url)
        system.invalidate_cache()  # other processes may have written there
        found = (system.glob if "*" in url else system.find)(pattern, detail=True)
        root = fsspec.core.url_to_fs(base)[1]
    # The address as given, since fsspec's own name of a file may lack the server.
    files = (name.removeprefix(root) for name, about in found.items() if about["type"] == "file")
    return sorted(base + file for file in files if "/." not in file)


def _put(path: str, content: bytes) -> None:
    """Put a file into a store at once, so that it is complete when it appears."""
    system, name = fsspec.core.url_to_fs(path)
    with suppress(PermissionError):  # the bucket exists, and may not be looked at
        system.makedirs(os.path.dirname(name), exist_ok=True)
    system.pipe_file(name, content)


def opened(path: str | Path) -> Any:
    """Open a regular local file, or with fsspec a URL."""
    return fsspec.open(path, "rb") if "://" in str(path) else open_plain(path)


@contextmanager
def _parquet(path: str) -> Iterator[Any]:
    """An open Parquet file; pyarrow reads a local one by itself, without Python threads."""
    pa = import_pyarrow()
    with opened(path) as stream, pa.parquet.ParquetFile(stream if "://" in path else path) as file:
        yield file


class RowGroup:
    """Vectors (n, D) or (n, V, D) in a row group of a file, read when they are needed."""

    def __init__(
        self, path: str, number: int, length: int, digests: Sequence[str], shape: Sequence[int]
    ) -> None:
        """`digests` (n,) are those of the images, if the file has them, and `shape` is a row's, if known."""
        self.path, self.number, self.length, self.digests = path, number, length, digests
        self.shape = (length, *(shape or _group(path, number).shape[1:]))

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, rows: Rows) -> Floats:
        with reading(self.path, "a file of embeddings", DataError):
            found: Floats = _group(self.path, self.number)[rows]
        return found


def read_parquet(path: str) -> tuple[list[str], list[RowGroup], Made | None]:
    """Paths, vectors, and how they were made, if the file says so."""
    made = _made(path)
    with _parquet(path) as file:
        sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        names = _texts(file, file.schema_arrow.names[0])
        digests = _texts(file, "digest") if made else []
        shape = _row_shape(file.schema_arrow)
    ends = accumulate(sizes)
    groups = [
        RowGroup(path, number, size, digests[end - size : end], shape)
        for number, (size, end) in enumerate(zip(sizes, ends, strict=True))
        if size
    ]
    return names, groups, made if isinstance(made, Made) else None


def _row_shape(schema: Any) -> list[int]:
    """(D) or (V, D), if all lists in the first column of lists have one size by its type; otherwise empty."""
    pa, shape = import_pyarrow(), list[int]()
    types = pa.types
    kind: Any = next((field.type for field in schema if types.is_nested(field.type)), pa.null())
    while types.is_fixed_size_list(kind):
        shape.append(kind.list_size)
        kind = kind.value_type
    return [] if types.is_nested(kind) else shape


def predictions(folder: str) -> Iterator[tuple[str, str]]:
    """The path and the class of every image in a folder that `predict` wrote."""
    for path in parquet_files(folder):
        with reading(path, "a file of predictions", DataError), _parquet(path) as file:
            for image, name in zip(_texts(file, "image"), _texts(file, "class"), strict=True):
                yield located(image, folder), name


def num_rows(path: str) -> int:
    """The number of rows of a Parquet file, without reading its columns."""
    with _parquet(path) as file:
        return int(file.metadata.num_rows)


def _texts(file: Any, column: str) -> list[str]:
    """A column of a file, which must be text."""
    found: list[str] = file.read(columns=[column]).column(0).to_pylist()
    if not all(isinstance(each, str) for each in found):
        raise ValueError(f"its column {column!r} is not text")
    return found


@lru_cache(2)
def _group(path: str, number: int) -> Floats:
    """The vectors of a row group; rows are mostly read in order, so only two groups are cached."""
    pa = import_pyarrow()
    with _parquet(path) as file:
        table = file.read_row_group(number)
    lists = [field.name for field in table.schema if pa.types.is_nested(field.type)]
    if lists:
        return _values(table.column(lists[0]))
    columns = [table.column(place).to_numpy() for place in range(1, table.num_columns)]
    return np.stack(columns, 1).astype(np.float32)


def _made(path: str) -> Made | Answered | None:
    """How a file was made; None if it is not ours."""
    try:
        with _parquet(path) as file:
            metadata = file.schema_arrow.metadata or {}
        return MADE.validate_json(metadata.get(KEY, b""))
    except ValueError:  # also what pydantic and pyarrow raise
        return None


def _values(column: Any) -> Floats:
    """Lists of equal length, or lists of such lists → an array, without a Python object for each number."""
    array, shape = column.combine_chunks(), [len(column)]
    pa = import_pyarrow()
    while pa.types.is_nested(array.type):
        lengths = pa.compute.unique(pa.compute.list_value_length(array)).to_pylist()
        if len(lengths) != 1 or lengths[0] is None:
            raise ValueError("its vectors have different lengths")
        array, shape = array.flatten(), [*shape, lengths[0]]
    values: Floats = array.to_numpy(zero_copy_only=False)
    return values.reshape(shape)


def import_pyarrow() -> Any:
    """Import pyarrow, an extra that is slow to import."""
    for part in ("compute", "parquet"):
        library(f"pyarrow.{part}", "parquet")
    return library("pyarrow", "parquet")
