"""The classes of a finished run, and the edits of a reviewer."""

import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator

from newfound.core.calls import public
from newfound.core.errors import Hint, RunError, UsageError, check_known
from newfound.core.files import AnyPath
from newfound.core.source import UNSORTED
from newfound.review.edits import (
    UNSORTED_ID,
    Accept,
    Edit,
    Merge,
    Move,
    Rename,
    Split,
    Undo,
    in_effect,
    read_edits,
    stored_edits,
    write_edits,
)
from newfound.review.replay import (
    accepted_after,
    by_features,
    by_rows,
    fit,
    names_after,
    replay,
    shares_after,
    split_parts,
)
from newfound.run.folder import Folder
from newfound.run.models import Classes, Versioned
from newfound.run.pile import COLUMNS, Assignments, Pile, inert, write_csv

if TYPE_CHECKING:
    from newfound.run.trained import Prediction

LONGEST_NAME = 100
"""Characters of a class name."""
GENERATED = re.compile(r"novel-\d+(-\d+)*")
"""Names that nobody chose: one of them is no useful guess for another."""
Rows = Annotated[Sequence[int], BeforeValidator(lambda rows: getattr(rows, "tolist", lambda: rows)())]
"""Whole numbers, possibly in an array."""
Kind = Literal["known", "novel", "unsorted"]


@dataclass(frozen=True)
class ReviewedClass:
    """A class after the edits."""

    id: int
    name: str
    kind: Kind
    rows: NDArray[np.integer]
    """Its images, as rows of the assignments."""
    confidence: float
    """The mean confidence of the model in the classes that it assigned."""


class Review:
    """The classes of a finished run, for editing. Every edit is stored at once and can be undone.

    Classes are addressed by name. An edit that changes nothing is not stored. Shapes: n images, as in the
    assignments.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder, self.source, self.results = folder, folder.request().source, folder.read_results()
        classes = self.results.classes or Classes(known=[], novel=[])
        self.found: Mapping[int, str] = classes.by_id
        """Id → name as discovered, known classes first."""
        self.known = list(classes.by_id)[: len(classes.known)]
        """Ids of the known classes."""
        self.assignments = Assignments.read(folder.assignments, classes)
        ids = np.array(list(self.found), dtype=np.int64)[self.assignments.ids]
        self.found_ids = np.where(self.assignments.unsorted, UNSORTED_ID, ids)
        """(n,) class of each image as discovered."""
        self._empty = {*self.found} - {*self.known, *np.unique(self.found_ids).tolist()}
        self.digest = self.assignments.digest(self.source)
        self._stored = stored_edits(folder.edits)
        of, self.log = read_edits(folder.edits)
        edits = in_effect(self.log)
        sizes = [*(self.results.known_sizes or [0] * len(self.known)), *self.results.cluster_sizes]
        same = self.assignments.sizes(len(self.found)) == sizes
        fits = not self.log or (of == self.digest and fit(edits, self.found, self.found_ids))
        if not same or not fits:
            other = folder.edits if same else folder.results
            raise RunError(f"{folder.assignments} does not match {other.name}. Restore the original files.")
        self._begin(edits)

    def _begin(self, edits: Sequence[Edit]) -> None:
        """Apply edits to the classes as discovered."""
        self.edits: list[Edit] = []
        """The edits that were not undone."""
        self.ids: NDArray[np.integer] = self.found_ids
        """(n,) class of each image."""
        self.accepted = np.zeros(len(self.found_ids), dtype=bool)
        """(n,) whether a reviewer has accepted an image in its class, or moved it there."""
        self._named = dict(self.found)
        self._follow(edits)

    def _follow(self, edits: Sequence[Edit]) -> None:
        """Apply further edits to the classes as they are now."""
        number = len(self.found_ids)
        self.edits += edits
        self.ids = replay(edits, self.ids, by_rows(number))
        self.accepted = self.accepted | accepted_after(edits, number)
        self._named = names_after(edits, self._named)

    @classmethod
    @public
    def open(cls, run: AnyPath) -> "Review":
        """Open the review of a finished run."""
        return cls(Folder(Path(run)))

    @cached_property
    def pile(self) -> Pile:
        """The predictions and features of the images."""
        return Pile.read(self.folder.pile)

    @property
    def names(self) -> dict[int, str]:
        """Id → name; known classes first, then novel ones, then the unsorted group."""
        return {**self._named, UNSORTED_ID: UNSORTED}

    @property
    def listed(self) -> dict[int, str]:
        """`names` without the novel classes that never had an image and that nobody renamed."""
        empty = self._empty - self._renamed - {*np.unique(self.ids).tolist()}
        return {key: name for key, name in self.names.items() if key not in empty}

    @property
    def settled(self) -> NDArray[np.bool_]:
        """(n,) whether a reviewer has settled the class of an image, by accepting, naming or merging it."""
        named = np.isin(self.ids, list(self._renamed))
        merged = np.isin(self.ids, self.known) & (self.ids != self.found_ids)
        settled: NDArray[np.bool_] = (self.accepted | named | merged) & (self.ids != UNSORTED_ID)
        return settled

    @property
    def _renamed(self) -> set[int]:
        """The ids of the classes that a reviewer has named."""
        return {key for edit in self.edits if isinstance(edit, Rename) for key in edit.ids}

    def kind(self, key: int) -> Kind:
        """The kind of a class."""
        return "unsorted" if key == UNSORTED_ID else "known" if key in self.known else "novel"

    @property
    def classes(self) -> list[ReviewedClass]:
        """All novel classes that are listed, and the other classes that have images."""
        ids, confidence = self.ids, self.assignments.confidence
        found = []
        for key, name in self.listed.items():
            rows, kind = np.flatnonzero(ids == key), self.kind(key)
            if len(rows) or kind == "novel":
                mean = float(confidence[rows].mean()) if len(rows) else 0.0
                found.append(ReviewedClass(key, name, kind, rows, mean))
        return found

    @property
    def next_id(self) -> int:
        """The first id that no class of the run has had, edits that were undone included."""
        parts = (part.id for edit in self.log if isinstance(edit, Split) for part in edit.parts)
        return 1 + max([*self.found, *parts], default=-1)

    @property
    def has_splits(self) -> bool:
        """Whether a class was split; which part a new image is in depends on its features."""
        return any(isinstance(edit, Split) for edit in self.edits)

    def predict(self, images: str | Path, strict: bool = False) -> "Predictions":
        """Sort new images into the edited classes.

        They are a folder, a CSV, a list of files or one file, tar files, a dataset, or embeddings.
        """
        from newfound.run.trained import Predictor  # imports torch, which no other part of a review needs

        blocks, copies = Predictor(self.folder, strict, self.has_splits)(str(images)), self.copies()
        found = [self.sorted(each, copies) for each in blocks]
        fields = ("images", "classes", "kinds", "confidence", "nearest", "left_out")
        joined = {name: list(chain(*(getattr(each, name) for each in found))) for name in fields}
        return Predictions.model_validate(joined)

    def copies(self) -> Mapping[str, tuple[int, float]]:
        """The digest of each image of the run → its class and its confidence.

        The confidence is 1 if the image was labelled or a reviewer has settled its class.
        """
        sure = np.where(self.settled, 1, self.assignments.confidence)
        seen = {digest: (list(self.found)[place], 1.0) for digest, place in self.pile.labelled.items()}
        seen |= dict(zip(self.pile.digests, zip(self.ids.tolist(), sure.tolist(), strict=True), strict=False))
        return seen

    def sorted(self, found: "Prediction", copies: Mapping[str, tuple[int, float]]) -> "Predictions":
        """The predictions of the run in the edited classes; images in `copies` get the class given there."""
        features = np.empty((0, 0)) if found.features is None else found.features
        left, names = shares_after(self.edits, found.shares, self.found, by_features(features)), self.listed
        dismissed = left.pop(UNSORTED_ID)
        left = {key: share for key, share in left.items() if key in names}
        shares = np.stack(list(left.values()), axis=1)
        nearest, confidence = np.array(list(left))[shares.argmax(1)], shares.max(1)
        ids = np.where(found.unsorted | (dismissed > confidence), UNSORTED_ID, nearest)
        for row, digest in enumerate(found.digests):
            if digest in copies:
                ids[row], confidence[row] = copies[digest]
        nearest = np.where(ids == UNSORTED_ID, nearest, ids)
        return Predictions(
            images=list(found.images),
            classes=[names[key] for key in ids.tolist()],
            kinds=[self.kind(key) for key in ids.tolist()],
            confidence=confidence.tolist(),
            nearest=[names[key] for key in nearest.tolist()],
            left_out=list(found.left_out),
        )

    @public
    def rename(self, names: Mapping[str, str]) -> None:
        """Rename novel classes: old name → new name."""
        names = {old: checked_name(new) for old, new in names.items() if old != new}
        ids = [self._novel(name) for name in names]
        taken = [composed(name) for key, name in self.names.items() if key not in ids]
        for new in names.values():
            if new in taken:
                raise UsageError(f"There is already a class {new!r}. Merge the two, or choose another name.")
            taken.append(new)
        if names:
            self._add(Rename(ids=ids, names=list(names.values())))

    @public
    def merge(self, into: str, *others: str) -> None:
        """Merge novel classes into another class, which may be a known one."""
        target, ids = self._id(into), dict.fromkeys(self._novel(name) for name in others)
        ids.pop(target, None)
        if ids:
            self._add(Merge(into=target, ids=list(ids)))

    @public
    def split(self, name: str, number: int = 2) -> None:
        """Split a novel class with k-means on its features."""
        key = self._novel(name)
        rows, parts = np.flatnonzero(self.ids == key), []
        if 2 <= number <= len(rows):
            ids = [key, *range(self.next_id, self.next_id + number - 1)]
            taken = list(self.names.values())
            free = (new for each in count(2) if (new := f"{self.names[key]}-{each}") not in taken)
            names = [self.names[key], *islice(free, number - 1)]
            parts = split_parts(self.pile.features[rows].astype(np.float32), rows, ids, names)
        if len(parts) < max(number, 2):
            raise UsageError(
                f"Cannot split {name!r} into {number} parts: too few of its {len(rows)} images differ."
            )
        self._add(Split(id=key, parts=parts))

    @public
    def move(self, into: str, *images: AnyPath) -> None:
        """Move images into another class, novel or known.

        Images are given by their paths, or by the end of a path that only one image has.
        """
        paths, by_name = self.assignments.images, defaultdict[str, list[int]](list)
        for row, path in enumerate(paths):
            by_name[os.path.basename(path)].append(row)
        rows = []
        for image in map(str, images):
            same_name = by_name[os.path.basename(image)]
            exact = [row for row in same_name if paths[row] in (image, os.path.abspath(image))]
            found = exact or [row for row in same_name if paths[row].endswith(f"{os.sep}{image}")]
            if len(found) != 1:
                raise UsageError(
                    f"{len(found) or 'No'} images match {image!r}. Use a path from {self.folder.assignments}."
                )
            rows += found
        self.move_rows(into, rows)

    @public
    def move_rows(self, into: str, rows: Rows) -> None:
        """Move images, given by their rows, into another class. Copies of them move too."""
        target, digests = self._id(into), self.pile.digests
        others = set(np.flatnonzero(self.ids != target).tolist())
        if digests:
            chosen = {digests[row] for row in rows if row in others}
            rows = [row for row, digest in enumerate(digests) if digest in chosen]
        moved = [row for row in dict.fromkeys(rows) if row in others]
        if moved:
            self._add(Move(into=target, rows=moved))

    @public
    def accept(self, *names: str) -> None:
        """Confirm the images of these classes; without names, those of all known classes."""
        keys = [self._id(name) for name in names] or self.known
        rows = np.flatnonzero(np.isin(self.ids, keys) & ~self.accepted)
        if len(rows):
            self._add(Accept(rows=rows.tolist()))

    def undo(self) -> Edit:
        """Undo the last edit, and return it."""
        if not self.edits:
            raise UsageError(f"There is no edit to undo in {self.folder.path}.")
        last = self.edits[-1]
        self._add(Undo())
        return last

    def _add(self, edit: Edit) -> None:
        """Write the log with one more edit, unless another process has added one."""
        with self.folder.locked():
            if stored_edits(self.folder.edits) != self._stored:
                raise UsageError(
                    f"The classes of {self.folder.path} were edited in the meantime. Open them again first."
                )
            before = self._stored if self.log else ""
            self._stored = write_edits(self.folder.edits, self.digest, [edit], before)
        self.log.append(edit)
        self._begin(in_effect(self.log)) if isinstance(edit, Undo) else self._follow([edit])

    def _id(self, name: str) -> int:
        """The id of the class with a name."""
        wanted, ids = composed(name), {composed(each): key for key, each in self.names.items()}
        given = [each for each in ids if each == wanted or not GENERATED.fullmatch(each)]
        check_known("class", wanted, given, Hint.CLASSES)
        return ids[wanted]

    def _novel(self, name: str) -> int:
        """The id of the novel class with a name."""
        key = self._id(name)
        if self.kind(key) != "novel":
            raise UsageError(
                f"{name!r} is not a novel class: others can be merged into it, but it cannot be edited."
            )
        return key


class Predictions(Versioned):
    """New images with their classes, known or novel, after the edits of the review."""

    images: list[str]
    classes: list[str]
    kinds: list[str]
    """`known`, `novel`, or `unsorted` where an image is too far from its class."""
    confidence: list[float]
    """The probability of the nearest class if the image is of any class; calibrated if the run is."""
    nearest: list[str]
    """The class; for an unsorted image, the one it is most like."""
    left_out: list[str]
    """Files that could not be read, each with the reason."""

    def rows(self) -> Iterator[tuple[str, str, str, float, str]]:
        """A row for each image, with the columns of the assignments."""
        return zip(self.images, self.classes, self.kinds, self.confidence, self.nearest, strict=True)

    def write(self, path: Path) -> None:
        """Write the predictions as CSV."""
        rows = (
            (image, inert(name), kind, f"{confidence:.4f}", inert(nearest))
            for image, name, kind, confidence, nearest in self.rows()
        )
        write_csv(path, COLUMNS, rows)


def composed(name: str) -> str:
    """The name in Unicode's composed form, for comparison; some file systems decompose names."""
    return unicodedata.normalize("NFC", str(name))


def checked_name(name: str) -> str:
    """A class name that can be typed: one short line."""
    text = composed(name)
    breaks = any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in text)
    typed = 0 < len(text) <= LONGEST_NAME and text == text.strip() and not breaks
    if not typed or "=" in text or text.startswith("-"):
        raise UsageError(
            f"{name!r} is not a class name: use one line of at most {LONGEST_NAME} characters without =, "
            "not starting with - or a space."
        )
    return text
