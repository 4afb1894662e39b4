"""The predictions of a run on its pile (pile.safetensors) and the class of each image (assignments.csv)."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from newfound.core.errors import Hint
from newfound.core.files import UNSEALED, read_tensors, read_text, reading, write_tensors, write_text
from newfound.core.source import UNSORTED, PileKind, Source
from newfound.metrics.outliers import Extent, Flags, Floats, Ints
from newfound.run.models import Classes

COLUMNS = ("image", "class", "kind", "confidence", "nearest")
"""The header of assignments.csv."""


@dataclass(frozen=True)
class Assignments:
    """The class of each unlabelled image, in the order of the data set, before any edits."""

    images: Sequence[str]
    ids: Ints
    """The most probable class, known ones first; in a novel pile always a novel one, C_l .. C - 1."""
    confidence: Floats
    """Its softmax probability among the classes that an image may have."""
    unsorted: Flags
    """Whether the image is too far from that class to belong to it."""
    num_known: int

    def sizes(self, num_classes: int) -> list[int]:
        """The number of images in each class, without unsorted ones."""
        sizes: list[int] = np.bincount(self.ids[~self.unsorted], minlength=num_classes).tolist()
        return sizes

    def digest(self, source: Source) -> str:
        """A digest of the images, their order and classes; it stays if the folder of `source` moves."""
        names = "\0".join(source.relative(self.images))
        digest = blake2b(names.encode("utf-8", "surrogateescape"), digest_size=8)
        places = np.where(self.unsorted, -1 - self.ids, self.ids)
        digest.update((places - self.num_known).astype(np.int64).tobytes())
        return digest.hexdigest()

    def write(self, path: Path, classes: Classes) -> None:
        """Write them as CSV."""
        named = [(name, "known") for name in classes.known] + [(name, "novel") for name in classes.novel]
        rows = zip(self.images, self.ids.tolist(), self.confidence, self.unsorted.tolist(), strict=True)
        lines = (
            (image, *((UNSORTED, UNSORTED) if far else named[key]), f"{confidence:.4f}", named[key][0])
            for image, key, confidence, far in rows
        )
        write_csv(path, COLUMNS, lines)

    @classmethod
    def read(cls, path: Path, classes: Classes) -> "Assignments":
        """Read a file that `write` wrote."""
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


@dataclass(frozen=True)
class Pile:
    """Predictions of the selected head on n unlabelled images; C = C_l + C_u classes, known first."""

    scores: Floats
    """(n, C_u) scores of the novel classes."""
    logits: Floats
    """(n, C) joint logits."""
    features: Floats
    """(n, D) half-precision features of the encoder."""
    comparable: bool
    """Whether the joint logits of known and of novel classes can be compared."""
    kind: PileKind = "novel"
    extent: Extent | None = None
    """How far the classes extend among the vectors; None for images."""
    digests: Sequence[str] = ()
    """(n,) digests of the image files; empty if the images do not come from files."""
    labelled: Mapping[str, int] = field(default_factory=dict)
    """The digest of each labelled image → its class."""

    @property
    def num_known(self) -> int:
        return int(self.logits.shape[1] - self.scores.shape[1])

    @cached_property
    def novel(self) -> Floats:
        """(n, C_u) probabilities among the novel classes."""
        return softmax(self.scores)

    @cached_property
    def joint(self) -> Floats:
        """(n, C) probabilities among all classes."""
        return softmax(self.logits)

    @cached_property
    def shares(self) -> Floats:
        """(n, C) probabilities by which images are assigned; in a novel pile they are 0 for known classes."""
        if self.kind == "mixed":
            return self.joint
        return np.pad(self.novel, ((0, 0), (self.num_known, 0)))

    def assignments(self, images: Sequence[str], unsorted: Flags | None = None) -> Assignments:
        """The most probable class of each image; a copy of a labelled image gets its class."""
        ids, confidence = self.shares.argmax(1), self.shares.max(1)
        unsorted = np.zeros(len(images), dtype=bool) if unsorted is None else unsorted.copy()
        for row, digest in enumerate(self.digests):
            if digest in self.labelled:
                ids[row], confidence[row], unsorted[row] = self.labelled[digest], 1, False
        return Assignments(images, ids, confidence, unsorted, self.num_known)

    def write(self, path: Path) -> None:
        arrays: dict[str, NDArray[np.generic]]
        arrays = {"scores": self.scores, "logits": self.logits, "features": self.features}
        if self.extent:
            arrays |= {"centres": self.extent.centres, "radii": self.extent.radii}
        arrays |= {"digests": packed(self.digests), "labelled": packed(list(self.labelled))}
        arrays["labels"] = np.array(list(self.labelled.values()), np.int64)
        # safetensors does not store strides.
        arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
        facts = {"comparable": "yes" if self.comparable else "no", "kind": self.kind}
        write_tensors(path, save(arrays, facts | UNSEALED))

    @classmethod
    def read(cls, path: Path) -> "Pile":
        """Read a file that `write` wrote."""
        with reading(path, "the file of this run's predictions", hint=Hint.RETRY):
            arrays, facts = read_tensors(path, load)
            return cls(
                scores=arrays["scores"],
                logits=arrays["logits"],
                features=arrays["features"],
                comparable=facts.get("comparable") == "yes",
                kind="mixed" if facts.get("kind") == "mixed" else "novel",
                extent=Extent(arrays["centres"], arrays["radii"]) if "radii" in arrays else None,
                digests=unpacked(arrays["digests"]),
                labelled=dict(zip(unpacked(arrays["labelled"]), arrays["labels"].tolist(), strict=True)),
            )


def inert(name: str) -> str:
    """The class name, quoted if a spreadsheet would take it for a formula."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@")) else name


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a header and one line per row, atomically."""
    out = io.StringIO()
    # Some readers take an unquoted carriage return for the end of a line.
    plain, quoted = (
        csv.writer(out, lineterminator="\n", quoting=how) for how in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
    )
    plain.writerow(columns)
    for row in map(list, rows):
        (quoted if any("\r" in str(value) for value in row) else plain).writerow(row)
    write_text(path, out.getvalue())


def packed(digests: Sequence[str]) -> NDArray[np.uint8]:
    """(n,) digests of one length → (n, length) characters; the header of a file could not hold them."""
    return np.frombuffer("".join(digests).encode(), np.uint8).reshape(len(digests), -1 if digests else 0)


def unpacked(characters: NDArray[np.uint8]) -> list[str]:
    """The digests that `packed` packed."""
    return [bytes(row).decode() for row in characters]


def softmax(scores: Floats) -> Floats:
    """(n, C) → probabilities (n, C)."""
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    probabilities: Floats = shifted / shifted.sum(axis=1, keepdims=True)
    return probabilities
