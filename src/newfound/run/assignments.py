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
from newfound.core.source import UNSORTED, Source
from newfound.run.models import Classes

COLUMNS = ("image", "class", "kind", "confidence", "nearest")


@dataclass(frozen=True)
class Assignments:
    """One entry for each unlabelled image, in the order of the data set."""

    images: Sequence[str]
    ids: NDArray[np.integer]
    """The most probable class, known ones first; where the pile is novel, a novel one, C_l .. C - 1."""
    confidence: NDArray[np.floating]
    """Its softmax probability among the classes that an image may have, if it is of any."""
    unsorted: NDArray[np.bool_]
    """Whether the image is too far from that class to be in it."""
    num_known: int

    def sizes(self, num_classes: int) -> list[int]:
        """How many images each class has, without unsorted ones."""
        found: list[int] = np.bincount(self.ids[~self.unsorted], minlength=num_classes).tolist()
        return found

    def digest(self, source: Source) -> str:
        """Changes when an image, its place or its class does, but not when the folder of `source` moves."""
        names = "\0".join(source.relative(self.images))
        digest = blake2b(names.encode("utf-8", "surrogateescape"), digest_size=8)
        places = np.where(self.unsorted, -1 - self.ids, self.ids)
        digest.update((places - self.num_known).astype(np.int64).tobytes())
        return digest.hexdigest()

    def write(self, path: Path, classes: Classes) -> None:
        """As CSV."""
        named = [(name, "known") for name in classes.known] + [(name, "novel") for name in classes.novel]
        rows = zip(self.images, self.ids.tolist(), self.confidence, self.unsorted.tolist(), strict=True)
        write_csv(
            path,
            COLUMNS,
            (
                (image, *((UNSORTED, UNSORTED) if far else named[key]), f"{share:.4f}", named[key][0])
                for image, key, share, far in rows
            ),
        )

    @classmethod
    def read(cls, path: Path, classes: Classes) -> "Assignments":
        """A file that `write` wrote."""
        place = {name: index for index, name in enumerate([*classes.known, *classes.novel])}
        with reading(path, "the file of this run's assignments", hint=Hint.RETRY):
            rows = list(csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True))
            return cls(
                images=[row["image"] for row in rows],
                ids=np.array(
                    [place[row["nearest" if row["class"] == UNSORTED else "class"]] for row in rows],
                    dtype=np.int64,
                ),
                confidence=np.array([row["confidence"] for row in rows], dtype=np.float32),
                unsorted=np.array([row["class"] == UNSORTED for row in rows], dtype=bool),
                num_known=len(classes.known),
            )


def inert(name: str) -> str:
    """A class name that no spreadsheet takes for a formula."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@")) else name


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
