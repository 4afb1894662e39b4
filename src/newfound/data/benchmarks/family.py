"""What a data set plug-in declares: how its images are read and treated, and the benchmarks that cut it.

Known classes become labelled, novel ones unlabelled; classes that a benchmark leaves unused are dropped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from newfound.core.errors import DataError, Hint
from newfound.core.source import Source
from newfound.data.dataset import Dataset, Look, Rows, Split, Truth, checked_number, rank_in_class
from newfound.data.folders import is_resident, open_images
from newfound.data.images import ImageSet, StreamedImages


@dataclass(frozen=True)
class Part:
    """The training or the test images of a data set."""

    labels: Rows
    """(n,) positions in the corpus's classes."""
    images: ImageSet
    """All n of them; of streamed ones, those that a benchmark uses are loaded if they fit into memory."""


@dataclass(frozen=True)
class Corpus:
    """A whole data set, in its official order."""

    classes: tuple[str, ...]
    train: Part
    test: Part


@dataclass(frozen=True)
class Benchmark:
    """A cut of a data set; classes that are neither novel nor unused are known."""

    name: str
    num_known: int
    novel: tuple[str, ...]
    unused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """A data set and its benchmarks."""

    read: Callable[[Path | None], Corpus]
    """The folder that the user gave, if any → all images."""
    look: Look
    needs: str
    """The files it needs."""
    benchmarks: tuple[Benchmark, ...]
    classes: tuple[str, ...] = ()
    """If given, the benchmark `NAME-K` discovers the last K of these, for any K."""

    def load(
        self, benchmark: Benchmark, data_dir: str | Path | None = None, subset: int | None = None
    ) -> Dataset:
        """The images of `benchmark`, at most `subset` of each class."""
        subset = None if subset is None else checked_number("subset", subset)
        corpus = self.read(Path(data_dir) if data_dir else None)
        complete = [corpus.classes[row] for row in np.intersect1d(corpus.train.labels, corpus.test.labels)]
        known = [name for name in complete if name not in (*benchmark.novel, *benchmark.unused)]
        novel = [name for name in complete if name in benchmark.novel]
        if (len(known), len(novel)) != (benchmark.num_known, len(benchmark.novel)):
            raise DataError(
                f"{benchmark.name} needs training and test images of {benchmark.num_known} known and "
                f"{len(benchmark.novel)} novel classes, got {len(known)} and {len(novel)}. Unpack all of "
                f"{self.needs}."
            )
        names = (*known, *novel)
        joint = np.full(len(corpus.classes), -1)
        joint[[corpus.classes.index(name) for name in names]] = np.arange(len(names))
        labelled, labels = _cut(corpus.train, joint, range(len(known)), subset)
        unlabelled, hidden = _cut(corpus.train, joint, range(len(known), len(names)), subset)
        truth = Truth(hidden, *_cut(corpus.test, joint, range(len(names)), subset))
        split = Split(labelled, labels, unlabelled, len(known), len(novel), self.look)
        source = Source(benchmark=benchmark.name, data_dir=str(data_dir) if data_dir else None, subset=subset)
        return Dataset(benchmark.name, split, truth, names, source=source)


def files_missing(name: str, files: str, looked: Sequence[Path]) -> DataError:
    """The error for official files that are not there."""
    where = f"; there is none in {' or '.join(map(str, looked))}" if looked else ""
    return DataError(f"{name} needs its official files, {files}{where}.", Hint.DATA_DIR)


def _cut(part: Part, joint: Rows, classes: range, subset: int | None) -> tuple[ImageSet, Tensor]:
    """The images of some joint classes and their labels, in the order of the files.

    `joint` maps the corpus's classes to joint ones, those that are left out to -1.
    """
    labels = joint[part.labels]
    chosen = np.isin(labels, classes)
    if subset is not None:
        chosen &= rank_in_class(labels) < subset
    rows = torch.from_numpy(np.flatnonzero(chosen))
    images = part.images.select(rows)
    if isinstance(images, StreamedImages) and is_resident(len(images), images.size):
        images, _, _ = open_images(images.names, images.size, strict=True)
    return images, torch.from_numpy(labels)[rows]
