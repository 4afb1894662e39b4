"""assignments.csv: what a run says of each image of the pile, before anybody has looked at it."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newfound.core.errors import RunError, in_words
from newfound.engine.files import RESUME, write_text
from newfound.experiment.pile import Pile
from newfound.experiment.source import Source
from newfound.metrics.outliers import outliers

COLUMNS = ("image", "class", "confidence", "is_outlier", "looks_known", "nearest_known")
FLAGS = ("no", "yes")
UNKNOWN = ""
"""What is said of known classes that cannot be compared with novel ones."""
MEANING = {"no": False, "yes": True, UNKNOWN: False}


@dataclass(frozen=True)
class Assignments:
    """One entry for each image, in the order of the pile."""

    images: Sequence[str]
    clusters: NDArray[np.integer]
    """The novel class that is most probable among the novel ones, 0 .. C_u - 1."""
    confidence: NDArray[np.floating]
    """Its probability among the novel ones."""
    is_outlier: NDArray[np.bool_]
    """Whether the image fits its class far worse than others do."""
    looks_known: NDArray[np.bool_]
    """Whether a known class is more probable than every novel one; never where they cannot be compared."""
    nearest_known: Sequence[str]
    """The most probable known class, or `UNKNOWN`."""

    @classmethod
    def of(cls, pile: Pile) -> "Assignments":
        novel, known, others = pile.novel, pile.joint[:, : pile.num_known], pile.joint[:, pile.num_known :]
        clusters = novel.argmax(1)
        nearest = [pile.names[index] if pile.comparable else UNKNOWN for index in known.argmax(1)]
        return cls(
            images=pile.images.names,
            clusters=clusters,
            confidence=novel.max(1),
            is_outlier=outliers(pile.scores[np.arange(len(clusters)), clusters], clusters),
            looks_known=pile.comparable & (known.max(1) > others.max(1)),
            nearest_known=nearest,
        )

    def digest(self, source: Source) -> str:
        """Changes when an image of `source`, its place or its cluster does, and not when its folder moves."""
        names = "\0".join(source.relative(self.images))
        digest = blake2b(names.encode("utf-8", "surrogateescape"), digest_size=8)
        digest.update(self.clusters.astype(np.int64).tobytes())
        return digest.hexdigest()

    def write(self, path: Path, names: Sequence[str]) -> None:
        """As CSV; `names` are those of the novel classes."""
        rows = zip(
            self.images,
            [names[cluster] for cluster in self.clusters],
            [f"{share:.4f}" for share in self.confidence],
            [FLAGS[flag] for flag in self.is_outlier.tolist()],
            [
                UNKNOWN if near == UNKNOWN else FLAGS[flag]
                for flag, near in zip(self.looks_known.tolist(), self.nearest_known, strict=True)
            ],
            self.nearest_known,
            strict=True,
        )
        write_csv(path, COLUMNS, rows)

    @classmethod
    def read(cls, path: Path, names: Sequence[str]) -> "Assignments":
        """What `write` wrote."""
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.DictReader(file, strict=True)
                rows = list(reader)
                if reader.fieldnames is None:
                    raise ValueError("an empty file")
            if any(None in row.values() for row in rows):
                raise ValueError("a line that ends early")
            columns = {name: [row[name] for row in rows] for name in COLUMNS}
            index = {name: place for place, name in enumerate(names)}
            return cls(
                images=columns["image"],
                clusters=np.array([index[name] for name in columns["class"]], dtype=np.int64),
                confidence=np.array(columns["confidence"], dtype=np.float32),
                is_outlier=np.array([MEANING[flag] for flag in columns["is_outlier"]], dtype=bool),
                looks_known=np.array([MEANING[flag] for flag in columns["looks_known"]], dtype=bool),
                nearest_known=columns["nearest_known"],
            )
        except (OSError, ValueError, KeyError, csv.Error) as error:
            raise RunError(
                f"{path} must be the CSV that newfound wrote; got: {in_words(error)}; remove "
                f"{'it and ' * path.exists()}results.json, and repeat the call that made it, {RESUME}"
            ) from None


def write_csv(path: Path, columns: Sequence[str], rows: "zip[tuple[object, ...]]") -> None:
    """A header and a line for each row; never half a file."""
    out = io.StringIO()
    # Without quotes a lone carriage return would end a line for whoever reads the file.
    plain, quoted = (
        csv.writer(out, lineterminator="\n", quoting=how) for how in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
    )
    plain.writerow(columns)
    for row in rows:
        (quoted if any("\r" in str(value) for value in row) else plain).writerow(row)
    write_text(path, out.getvalue())
