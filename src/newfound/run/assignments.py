"""assignments.csv: the class of each unlabelled image, before anybody has edited anything."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newfound.core.errors import Hint
from newfound.core.files import read_text, reading, write_text
from newfound.core.source import Source
from newfound.run.models import Classes

COLUMNS = ("image", "class", "kind", "confidence", "is_outlier")
KINDS = ("novel", "known")
FLAGS = ("no", "yes")


@dataclass(frozen=True)
class Assignments:
    """One entry for each unlabelled image, in the order of the data set."""

    images: Sequence[str]
    ids: NDArray[np.integer]
    """The most probable class, known ones first; where the pile is novel, a novel one, C_l .. C - 1."""
    confidence: NDArray[np.floating]
    """Its softmax probability among the classes that an image may have."""
    is_outlier: NDArray[np.bool_]
    """Whether the image fits its class far worse than the others do."""
    num_known: int

    def sizes(self, num_classes: int) -> list[int]:
        """How many images each class has."""
        found: list[int] = np.bincount(self.ids, minlength=num_classes).tolist()
        return found

    def digest(self, source: Source) -> str:
        """Changes when an image, its place or its class does, but not when the folder of `source` moves."""
        names = "\0".join(source.relative(self.images))
        digest = blake2b(names.encode("utf-8", "surrogateescape"), digest_size=8)
        digest.update((self.ids - self.num_known).astype(np.int64).tobytes())
        return digest.hexdigest()

    def write(self, path: Path, classes: Classes) -> None:
        """As CSV."""
        names = [*classes.known, *classes.novel]
        rows = zip(
            self.images,
            (names[key] for key in self.ids),
            (KINDS[key < self.num_known] for key in self.ids.tolist()),
            (f"{share:.4f}" for share in self.confidence),
            (FLAGS[flag] for flag in self.is_outlier.tolist()),
            strict=True,
        )
        write_csv(path, COLUMNS, rows)

    @classmethod
    def read(cls, path: Path, classes: Classes) -> "Assignments":
        """A file that `write` wrote."""
        place = {name: index for index, name in enumerate([*classes.known, *classes.novel])}
        with reading(path, "the file of this run's assignments", hint=Hint.RETRY):
            rows = list(csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True))
            columns = {name: [row[name] for row in rows] for name in COLUMNS if name != "kind"}
            return cls(
                images=columns["image"],
                ids=np.array([place[name] for name in columns["class"]], dtype=np.int64),
                confidence=np.array(columns["confidence"], dtype=np.float32),
                is_outlier=np.array([FLAGS.index(flag) for flag in columns["is_outlier"]], dtype=bool),
                num_known=len(classes.known),
            )


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """A header and one line for each row, atomically."""
    out = io.StringIO()
    # A lone carriage return ends a line for some readers unless it is quoted.
    plain, quoted = (
        csv.writer(out, lineterminator="\n", quoting=how) for how in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
    )
    plain.writerow(columns)
    for row in map(list, rows):
        (quoted if any("\r" in str(value) for value in row) else plain).writerow(row)
    write_text(path, out.getvalue())
