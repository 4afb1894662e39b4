"""Embeddings instead of images: sets of vectors, and data sets of them from arrays and files."""

import csv
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from io import StringIO
from itertools import zip_longest
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.calls import public
from newfound.core.errors import DataError, UsageError, shortened
from newfound.core.files import located, open_plain, read_text, reading
from newfound.core.seed import generator
from newfound.core.settings import Count
from newfound.core.source import UNSORTED, EncoderVersion, PileKind, Source
from newfound.data.arrays import UNLABELLED, Labels, encoded
from newfound.data.dataset import Dataset, Look, Split, counted, own_dataset
from newfound.data.files import labelled_files
from newfound.data.images import ImageSet, ResidentImages
from newfound.data.parquet import Floats, Made, RowGroup, Rows, parquet_files, read_parquet

log = logging.getLogger(__name__)
CHUNK = 4096
"""Vectors that are read at a time."""


class Vectors(ResidentImages):
    """n vectors of D features in V views, as float16 (n, V, D); `take` gives such rows."""

    key = ""
    """Identifies the encoder and its views, if newfound embedded them."""
    digests: Sequence[str] = ()
    """(n,) digests of the images' contents, if known."""

    def contents(self) -> list[str]:
        return list(self.digests)

    def select(self, rows: Tensor) -> Self:
        chosen = super().select(rows)
        chosen.key, chosen.digests = self.key, [self.digests[row] for row in rows.tolist() if self.digests]
        return chosen

    def _place(self, device: torch.device, move: bool) -> Self:
        placed = super()._place(device, move)
        placed.key, placed.digests = self.key, self.digests
        return placed


class EmbeddedImages(Vectors):
    """Vectors of images; their fingerprint is the images', because devices round vectors differently."""

    def _digest(self) -> str:
        return blake2b("/".join(map(self.key.__add__, self.digests)).encode(), digest_size=16).hexdigest()


class Stored(Protocol):
    """Vectors (n, D) or (n, V, D) in a file or an array."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Rows) -> Floats: ...


class StoredVectors(ImageSet):
    """Vectors that are read from their files each time they are taken, so that they need no memory."""

    resident = False

    def __init__(
        self, parts: Sequence[Stored], rows: Tensor, names: Sequence[str], device: torch.device | None = None
    ) -> None:
        """The vectors in `rows` (n,), numbered across all parts."""
        self.parts, self.rows, self.names = parts, rows, names
        self.device = device or torch.device("cpu")
        self._ends = np.cumsum([len(part) for part in parts])
        _, views, features = unit_vectors(parts[0][np.zeros(1, np.int64)]).shape
        self.size = (views, features)

    def fetch(self, index: Tensor) -> Tensor:
        rows = self.rows[index.cpu()].numpy()
        found = torch.empty(len(rows), *self.size, dtype=torch.float16)
        places = np.searchsorted(self._ends, rows, side="right")
        for place in np.unique(places):
            here, part = np.flatnonzero(places == place), self.parts[place]
            first = self._ends[place] - len(part)
            found[torch.from_numpy(here)] = unit_vectors(part[rows[here] - first], rows[here])
        return found

    def loaded(self) -> Vectors:
        """The same vectors in memory."""
        found = Vectors(torch.cat(list(self._chunks())), self.names, self.device)
        found.digests = self.contents()
        return found

    def joined(self, others: "StoredVectors") -> "StoredVectors":
        """These vectors, then those of `others` whose images are not among them, by path or content."""
        names, digests = {*self.names}, {*self.contents()}
        theirs = zip_longest(others.names, others.contents())
        new = [
            row for row, (name, digest) in enumerate(theirs) if name not in names and digest not in digests
        ]
        fresh = others.select(torch.tensor(new, dtype=torch.long))
        rows = torch.cat([self.rows, fresh.rows + int(self._ends[-1])])
        return StoredVectors([*self.parts, *fresh.parts], rows, [*self.names, *fresh.names], self.device)

    def contents(self) -> list[str]:
        """The digests that the files contain; empty if some are missing."""
        digests = [digest for part in self.parts if isinstance(part, RowGroup) for digest in part.digests]
        return [digests[row] for row in self.rows.tolist()] if len(digests) == self._ends[-1] else []

    def select(self, rows: Tensor) -> "StoredVectors":
        names = [self.names[row] for row in rows.tolist()]
        return StoredVectors(self.parts, self.rows[rows.cpu()], names, self.device)

    def _place(self, device: torch.device, move: bool) -> "StoredVectors":
        return StoredVectors(self.parts, self.rows, self.names, device)

    def _digest(self) -> str:
        """The digest that the same vectors would have in memory."""
        digest = blake2b(str((len(self), *self.size)).encode(), digest_size=16)
        for chunk in self._chunks():
            digest.update(chunk.view(-1).numpy().data)
        return digest.hexdigest()

    def _chunks(self) -> Iterator[Tensor]:
        return map(self.fetch, torch.split(torch.arange(len(self)), CHUNK))


def sampled(dataset: Dataset, most: int, seed: int) -> Dataset:
    """The data set with at most `most` random vectors in its pile; data sets of images stay as they are."""
    split, truth = dataset.split, dataset.truth
    if split.look.kind != "vectors" or len(split.unlabelled) <= most:
        return dataset
    rows = sample_rows(len(split.unlabelled), most, seed)
    truth = truth and replace(truth, labels=truth.labels[rows.to(truth.labels.device)])
    return replace(dataset, split=replace(split, unlabelled=split.unlabelled.select(rows)), truth=truth)


def sample_rows(number: int, most: int, seed: int) -> Tensor:
    """The rows of a pile's random sample, in order."""
    random = generator(torch.device("cpu"), seed, "sample")
    return torch.randperm(number, generator=random)[:most].sort().values


def in_memory(dataset: Dataset, most: int, seed: int, quiet: bool = False) -> Dataset:
    """The sampled data set with its vectors in memory; logs that it is a sample, unless `quiet`."""
    number, some = len(dataset.split.unlabelled), sampled(dataset, most, seed)
    if len(some.split.unlabelled) < number and not quiet:
        sizes = f"{most:,} of {number:,}"
        log.info("using a random sample of %s vectors; the others are assigned like new ones", sizes)
    labelled, unlabelled = (
        each.loaded() if isinstance(each, StoredVectors) else each
        for each in (some.split.labelled, some.split.unlabelled)
    )
    return replace(some, split=replace(some.split, labelled=labelled, unlabelled=unlabelled))


@runtime_checkable
class Frozen(Protocol):
    """A frozen encoder, which embeds images."""

    def files(self, paths: Sequence[str], strict: bool) -> tuple[EmbeddedImages, list[int], list[str]]:
        """The vectors of files that can be read, their rows in `paths`, and the others with the reason."""

    def images(self, images: ImageSet) -> EmbeddedImages: ...


def embedded(dataset: Dataset, frozen: Frozen) -> Dataset:
    """The data set with vectors in place of its images."""
    split, truth = dataset.split, dataset.truth
    labelled, unlabelled = frozen.images(split.labelled), frozen.images(split.unlabelled)
    look = replace(vector_look(labelled.pixels.shape[-1]), stored=split.look.stored)
    vectors = replace(split, labelled=labelled, unlabelled=unlabelled, look=look)
    test = truth and replace(truth, test=frozen.images(truth.test))
    return replace(dataset, split=vectors, truth=test, size_reason="")


@public
def from_embeddings(
    vectors: npt.ArrayLike,
    labels: Labels,
    num_novel: Count | None = None,
    *,
    names: Sequence[str] | None = None,
    pile: PileKind | None = None,
) -> Dataset:
    """A data set of vectors (n, D), or (n, V, D) with V views of each image, and labels (n,), -1 for none.

    Only the direction of a vector counts. Labels are numbers or strings; `names` (n,) are the images, if
    their paths are known; `num_novel` is None if it is unknown, and may be 0 if every vector is labelled.
    `pile` is "mixed" if unlabelled vectors may be of known classes, "novel" if not; by default that of
    the method's paper.
    """
    values = unit_vectors(vectors)
    given, classes = encoded(labels, len(values))
    called = (
        [f"vector-{row}" for row in range(len(values))] if names is None else [str(each) for each in names]
    )
    if len(called) != len(values):
        raise DataError(f"There are {len(called)} names for {len(values)} vectors.")
    dataset = _dataset(Vectors(values, called), given, classes, num_novel, pile)
    source = Source(arrays=dataset.fingerprint(), num_novel=num_novel, pile=pile, vectors=True)
    return replace(dataset, source=source)


def _dataset(
    every: ImageSet,
    given: Rows,
    classes: npt.NDArray[np.generic],
    num_novel: int | None,
    pile: PileKind | None,
) -> Dataset:
    """A data set of all vectors; `given` (n,) are their classes, negative if unlabelled."""
    known, others = (torch.from_numpy(np.flatnonzero(rows)) for rows in (given >= 0, given < 0))
    sets = every.select(known), torch.from_numpy(given)[known], every.select(others)
    split = Split(*sets, len(classes), num_novel, vector_look(every.size[1]), pile or "novel")
    return own_dataset("embeddings", split, [str(label) for label in classes], "", ())


def holds_vectors(place: str) -> bool:
    """Whether `place` names embeddings; a CSV, which may be of embeddings or images, counts as images."""
    return place.endswith((".parquet", ".npy")) or bool(parquet_files(place))


def load_vectors(path: str, look: Look, encoder: EncoderVersion | None) -> StoredVectors:
    """The vectors in files, which must come from the encoder of a run."""
    found = read_embeddings(path)
    size = found.vectors.size[1]
    if size != look.size:
        raise DataError(f"The vectors in {path} have {size} features, those of the run {look.size}.")
    if encoder and found.encoder and encoder != found.encoder:
        theirs, ours = str(found.encoder), str(encoder)
        if theirs == ours:
            theirs, ours = found.encoder.preprocessing, encoder.preprocessing
        raise DataError(
            f"The vectors in {path} come from another encoder than those of the run: {theirs}, not {ours}."
        )
    return found.vectors


def unit_vectors(vectors: npt.ArrayLike, numbers: Rows | None = None) -> Tensor:
    """Finite numbers (n, D) or (n, V, D) → vectors of unit length, float16 (n, V, D).

    An error names the row, by its number in `numbers` (n,) if given.
    """
    values = np.asarray(vectors)
    numeric = np.issubdtype(values.dtype, np.floating) or np.issubdtype(values.dtype, np.integer)
    if not numeric or values.ndim not in (2, 3) or not values.size:
        raise DataError(
            "Embeddings must be numbers of shape (n, D), or (n, V, D) with V views of each image, got "
            f"{values.dtype} of shape {values.shape}."
        )
    rows = torch.from_numpy(values.astype(np.float32, order="C"))
    bad = (~rows.isfinite()).flatten(1).any(1).nonzero().flatten()
    if len(bad):
        row = int(bad[0] if numbers is None else numbers[bad[0]])
        raise DataError(f"Embeddings must be finite; row {row} is not.")
    return F.normalize(rows if rows.ndim == 3 else rows[:, None], dim=-1).half()


def vector_look(size: int) -> Look:
    """How vectors of `size` features are treated."""
    return Look(size, "vectors", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), stored=size)


def from_embedding_files(
    embeddings: str | Path,
    labelled: str | Path,
    num_novel: int | None = None,
    *,
    pile: PileKind | None = None,
    more: tuple[str, ...] = (),
) -> Dataset:
    """A data set of the vectors in files (see `read_embeddings`) and of labelled images.

    `labelled` is a CSV or a folder with one subfolder per class; all other vectors are unlabelled. `more` are
    files of further images; then the CSV lists all images to use, and the other vectors are left out.
    """
    if "://" in str(labelled):
        raise DataError(f"The labels at {labelled} are not on this machine. Copy them, for example as a CSV.")
    table, known = str(embeddings), Path(labelled)
    found, listed = joined_embeddings(table, more), labelled_files(known)[0]
    vectors, names = found.vectors, found.vectors.names
    if more:
        used = {located(path) for path, _ in listed}
        vectors = vectors.select(
            torch.tensor([row for row, name in enumerate(names) if name in used], dtype=torch.long)
        )
        names = vectors.names
    rows = {name: row for row, name in enumerate(names)}
    if len(rows) < len(names):
        twice = [name for row, name in enumerate(names) if rows[name] != row]
        raise DataError(f"{table} has more than one vector of {shortened(twice)}.")
    labels = {located(path): label for path, label in listed if label not in ("", UNSORTED)}
    if without := [path for path in labels if path not in rows]:
        raise DataError(f"Labelled images without a vector in {table}: {shortened(without)}.")
    given = encoded(np.array([labels.get(name, str(UNLABELLED)) for name in names]), len(names))
    dataset = _dataset(vectors, *given, num_novel, pile)
    source = Source(
        embeddings=table,
        more_embeddings=more,
        labelled=str(known),
        num_novel=num_novel,
        pile=pile,
        embedded_by=found.encoder,
    )
    return replace(dataset, source=source, size_reason=f"by {found.encoder}" if found.encoder else "")


@dataclass(frozen=True)
class Embeddings:
    """The vectors in files."""

    vectors: StoredVectors
    """Named by the absolute paths of the images."""
    encoder: EncoderVersion | None
    """Their encoder, if the files name it."""


def joined_embeddings(place: str, more: Sequence[str]) -> Embeddings:
    """The vectors in files, and those of new images in `more` files, of the same encoder and views."""
    found = read_embeddings(place)
    vectors, look = found.vectors, vector_look(found.vectors.size[1])
    for each in more:
        others = load_vectors(each, look, found.encoder)
        if others.size != vectors.size:
            raise DataError(
                f"{each} has {counted(others.size[0], 'view')} of each image, the run {vectors.size[0]}."
            )
        vectors = vectors.joined(others)
    return replace(found, vectors=vectors)


def read_embeddings(place: str | Path) -> Embeddings:
    """Read a folder of Parquet files, one of them, a CSV, or a `.npy` array beside a `.txt` list of paths.

    Parquet files may be in an object store. The first column of a table is the path; the others are the
    features, or one of them holds a list of features, or V such lists, in each row. Relative paths start at
    the folder of the file.
    """
    path = str(place)
    shards = parquet_files(path) or [path]
    readers = {".parquet": read_parquet, ".csv": _read_table, ".npy": _read_array}
    if any(os.path.splitext(each)[1] not in readers for each in shards):
        raise UsageError(
            f"Embeddings must be Parquet files, a .csv or a .npy file, got {path}. `newfound embed` makes "
            "them from images."
        )
    names, parts, made = list[str](), list[Stored](), set[Made | None]()
    for shard in shards:
        with reading(shard, "a file of embeddings", DataError):
            found, stored, origin = readers[os.path.splitext(shard)[1]](shard)
            if len(found) != sum(map(len, stored)):
                raise ValueError(f"it has {sum(map(len, stored))} vectors for {len(found)} paths")
            names += [located(name, os.path.dirname(shard)) for name in found]
        parts += stored
        made.add(origin)
    if len({each.shape[1:] for each in parts}) > 1 or len(made) > 1:
        raise DataError(f"The files in {path} have vectors of different lengths or encoders.")
    (origin,) = made
    every = StoredVectors(parts, torch.arange(len(names)), names)
    return Embeddings(every, origin.encoder if origin else None)


Table = tuple[list[str], Sequence[Stored], Made | None]


def _read_table(path: str) -> Table:
    rows = [row for row in csv.reader(StringIO(read_text(Path(path)), newline="")) if row][1:]
    return [row[0] for row in rows], [np.array([row[1:] for row in rows], np.float32)], None


def _read_array(path: str) -> Table:
    names = read_text(Path(path).with_suffix(".txt")).splitlines()
    open_plain(path).close()
    array = np.lib.format.open_memmap(path, mode="r")
    return [name for name in names if name], [array], None
