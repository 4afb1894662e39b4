"""Embeddings in place of images: sets of vectors, and data sets of them from arrays and files."""

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from io import StringIO
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.calls import public
from newfound.core.errors import DataError, UsageError, shortened
from newfound.core.files import open_plain, read_text, reading
from newfound.core.settings import Count
from newfound.core.source import UNSORTED, EncoderVersion, PileKind, Source
from newfound.data.arrays import UNLABELLED, Labels, encoded
from newfound.data.dataset import Dataset, Look, Split
from newfound.data.files import labelled_files
from newfound.data.images import ImageSet, ResidentImages
from newfound.data.own import own_dataset
from newfound.data.parquet import Floats, Made, read_parquet


class Vectors(ResidentImages):
    """n vectors of D features in V views, as float16 (n, V, D); `take` gives such rows."""


class EmbeddedImages(Vectors):
    """Vectors of images; the fingerprint is that of the images, because devices round vectors differently."""

    key = ""
    """What they are embedded with."""
    digests: Sequence[str] = ()
    """(n,) what each image contains."""

    def contents(self) -> list[str]:
        return list(self.digests)

    def select(self, rows: Tensor) -> Self:
        chosen = super().select(rows)
        chosen.key, chosen.digests = self.key, [self.digests[row] for row in rows.tolist()]
        return chosen

    def _place(self, device: torch.device, move: bool) -> Self:
        placed = super()._place(device, move)
        placed.key, placed.digests = self.key, self.digests
        return placed

    def _digest(self) -> str:
        return blake2b("/".join(map(self.key.__add__, self.digests)).encode(), digest_size=16).hexdigest()


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
        raise DataError(f"names must be one per vector, got {len(called)} for {len(values)}.")
    known, others = (torch.from_numpy(np.flatnonzero(rows)) for rows in (given >= 0, given < 0))
    every, class_ids = Vectors(values, called), torch.from_numpy(given)[known]
    look = vector_look(values.shape[2])
    sets = every.select(known), class_ids, every.select(others)
    split = Split(*sets, len(classes), num_novel, look, pile or "novel")
    dataset = own_dataset("embeddings", split, [str(label) for label in classes], "", ())
    source = Source(arrays=dataset.fingerprint(), num_novel=num_novel, pile=pile, vectors=True)
    return replace(dataset, source=source)


def holds_vectors(path: Path) -> bool:
    """Whether a path names embeddings rather than images; a CSV may be either, and counts as images."""
    return path.suffix in (".parquet", ".npy") or any(path.glob("*.parquet"))


def load_vectors(path: Path, look: Look, encoder: EncoderVersion | None) -> tuple[Vectors, tuple[str, ...]]:
    """The vectors in files, by the same encoder as those of a run; none is left out."""
    found = read_embeddings(path)
    if found.vectors.shape[-1] != look.size:
        raise DataError(
            f"The vectors in {path} have {found.vectors.shape[-1]} features, those of the run {look.size}."
        )
    if encoder and found.encoder and encoder != found.encoder:
        theirs, ours = str(found.encoder), str(encoder)
        if theirs == ours:
            theirs, ours = found.encoder.preprocessing, encoder.preprocessing
        raise DataError(
            f"The vectors in {path} are by another encoder than those of the run: {theirs}, not {ours}."
        )
    return Vectors(unit_vectors(found.vectors), found.names), ()


def unit_vectors(vectors: npt.ArrayLike) -> Tensor:
    """Finite numbers (n, D) or (n, V, D) → vectors of unit length, float16 (n, V, D)."""
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
        raise DataError(f"Embeddings must be finite; row {int(bad[0])} is not.")
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
) -> Dataset:
    """A data set of the vectors in files (see `read_embeddings`) and of labelled images.

    `labelled` is a CSV or a folder with one subfolder per class; all other vectors are unlabelled.
    """
    table, known = Path(embeddings), Path(labelled)
    found = read_embeddings(table)
    names = found.names
    rows = {name: row for row, name in enumerate(names)}
    if len(rows) < len(names):
        twice = [name for row, name in enumerate(names) if rows[name] != row]
        raise DataError(f"{table} has more than one vector of {shortened(twice)}.")
    labels = {
        os.path.abspath(path): label
        for path, label in labelled_files(known)[0]
        if label not in ("", UNSORTED)
    }
    if without := [path for path in labels if path not in rows]:
        raise DataError(f"Labelled images without a vector in {table}: {shortened(without)}.")
    given = np.array([labels.get(name, str(UNLABELLED)) for name in names])
    dataset = from_embeddings(found.vectors, given, num_novel, names=names, pile=pile)
    source = Source(
        embeddings=str(table),
        labelled=str(known),
        num_novel=num_novel,
        pile=pile,
        embedded_by=found.encoder,
    )
    return replace(dataset, source=source, size_reason=f"by {found.encoder}" if found.encoder else "")


@dataclass(frozen=True)
class Embeddings:
    """The vectors in files."""

    names: list[str]
    """The absolute paths of the images."""
    vectors: Floats
    """(n, D) or (n, V, D)."""
    encoder: EncoderVersion | None
    """What made them, if the files say so."""


def read_embeddings(path: Path) -> Embeddings:
    """Read a folder of Parquet files, one of them, a CSV, or a `.npy` array beside a `.txt` list of paths.

    The first column of a table is the path; the others are the features, or one of them is a list of those,
    or of V such lists. Relative paths start at the folder of the file.
    """
    shards = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    readers = {".parquet": read_parquet, ".csv": _read_table, ".npy": _read_array}
    if not shards or any(each.suffix not in readers for each in shards):
        raise UsageError(f"Embeddings are Parquet files, a .csv or a .npy file, got {path}.")
    names, vectors, made = list[str](), list[Floats](), set[Made | None]()
    for shard in shards:
        with reading(shard, "a file of embeddings", DataError):
            found, values, origin = readers[shard.suffix](shard)
        names += [os.path.abspath(os.path.join(shard.parent, name)) for name in found]
        vectors.append(values)
        made.add(origin)
    if len({each.shape[1:] for each in vectors}) > 1 or len(made) > 1:
        raise DataError(f"The files in {path} have vectors of different lengths or encoders.")
    (origin,) = made
    return Embeddings(names, np.concatenate(vectors), origin.encoder if origin else None)


Table = tuple[list[str], Floats, Made | None]


def _read_table(path: Path) -> Table:
    rows = [row for row in csv.reader(StringIO(read_text(path), newline="")) if row][1:]
    return [row[0] for row in rows], np.array([row[1:] for row in rows], np.float32), None


def _read_array(path: Path) -> Table:
    names = read_text(path.with_suffix(".txt")).splitlines()
    with open_plain(path) as file:
        return [name for name in names if name], np.lib.format.read_array(file, allow_pickle=False), None
