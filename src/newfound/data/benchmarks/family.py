"""What a data set plug-in declares: how its images are read and treated, and its benchmarks.

Images of known classes become labelled, those of novel classes unlabelled; classes that a benchmark leaves
unused are dropped. In a mixed benchmark, half of the images of each known class stay unlabelled, as in GCD.

Deviation: GCD draws that half at random over all known classes; here it is every second image of each class.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newfound.core.errors import DataError, Hint
from newfound.core.source import PileKind, Source
from newfound.data.dataset import Dataset, Look, Rows, Split, Truth, is_labelled, rank_in_class
from newfound.data.folders import is_resident, open_images
from newfound.data.images import ImageSet, StreamedImages


@dataclass(frozen=True)
class Part:
    """The training or the test images of a data set."""

    labels: Rows
    """(n,) positions in the corpus's classes."""
    images: ImageSet
    """All n of them; if they are streamed, those that a benchmark uses are loaded if they fit into memory."""


@dataclass(frozen=True)
class Corpus:
    """A whole data set, in its official order."""

    classes: tuple[str, ...]
    train: Part
    test: Part


@dataclass(frozen=True)
class Benchmark:
    """A division of a data set; classes that are neither novel nor unused are known."""

    name: str
    num_known: int
    novel: tuple[str, ...]
    unused: tuple[str, ...] = ()
    pile: PileKind = "novel"
    shots: int | None = None
    """How many labelled images of each known class are used, the first ones; None: all."""


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
        joint = np.full(len(corpus.classes), -1)  # classes that are left out
        joint[[corpus.classes.index(name) for name in names]] = np.arange(len(names))
        train, test = (_limited(joint[part.labels], subset) for part in (corpus.train, corpus.test))
        given = is_labelled(train, len(known), benchmark.pile)
        if benchmark.shots is not None:
            train[given] = _limited(train[given], benchmark.shots)
            given &= train >= 0
        fits = _fits(corpus.train, train)
        labelled, labels = _select(corpus.train, train, given, fits)
        unlabelled, hidden = _select(corpus.train, train, (train >= 0) & ~given, fits)
        truth = Truth(hidden, *_select(corpus.test, test, test >= 0, _fits(corpus.test, test)))
        split = Split(labelled, labels, unlabelled, len(known), len(novel), self.look, benchmark.pile)
        source = Source(benchmark=benchmark.name, data_dir=str(data_dir) if data_dir else None, subset=subset)
        return Dataset(benchmark.name, split, truth, names, source=source)


def files_missing(name: str, files: str, looked: Sequence[Path]) -> DataError:
    """The error for official files that are not there."""
    where = f"; there is none in {' or '.join(map(str, looked))}" if looked else ""
    return DataError(f"{name} needs its official files, {files}{where}.", Hint.DATA_DIR)


def _limited(labels: Rows, subset: int | None) -> Rows:
    """Joint classes (n,), -1 for images that are left out, the first `subset` of each class kept."""
    return labels if subset is None else np.where(rank_in_class(labels) < subset, labels, -1)


def _fits(part: Part, labels: Rows) -> bool:
    """Whether all images of a part that are used fit into memory."""
    return is_resident(int((labels >= 0).sum()), part.images.size)


def _select(part: Part, labels: Rows, chosen: npt.NDArray[np.bool_], fits: bool) -> tuple[ImageSet, Tensor]:
    """The chosen images (n,) and their labels, in the order of the files; in memory if all of them fit."""
    rows = torch.from_numpy(np.flatnonzero(chosen))
    images = part.images.select(rows)
    if isinstance(images, StreamedImages) and fits:
        images, _, _ = open_images(images.names, images.size, strict=True, crop=images.crop, resident=True)
    return images, torch.from_numpy(labels)[rows]
