"""The classes of a run as a person has left them."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newfound.core.errors import RunError, UsageError, shortened, unknown
from newfound.core.paths import checked_path
from newfound.engine.claim import claimed
from newfound.experiment.assignments import Assignments
from newfound.experiment.folder import Folder
from newfound.experiment.reopen import pile_features
from newfound.experiment.source import Source
from newfound.review.edits import Edit, Merge, Move, Rename, Split, Undo, read_edits, standing, write_edits
from newfound.review.names import checked_name, composed, free_names
from newfound.review.parts import parts_of
from newfound.review.replay import by_rows, fit, names_after, replay


@dataclass(frozen=True)
class Reviewed:
    """A class with its images, as rows of the pile."""

    id: int
    name: str
    known: bool
    rows: NDArray[np.integer]
    confidence: float
    """Of the model in the class that it found, on average."""


class Review:
    """The classes that a run found, to be renamed, merged and split, and images moved; all can be undone.

    Classes go by their names, and keep their ids.
    """

    def __init__(
        self,
        folder: Folder,
        known: Sequence[str],
        novel: Sequence[str],
        assignments: Assignments,
        source: Source,
    ) -> None:
        self.folder, self.num_known, self.assignments = folder, len(known), assignments
        self.found: Mapping[int, str] = dict(enumerate([*known, *novel]))
        self.source, self.digest = source, assignments.digest(source)
        self.log = read_edits(folder.edits, self.digest)
        self._check_log()

    @classmethod
    def open(cls, run: str | Path, data_dir: str | None = None) -> "Review":
        """Of a finished run, from its folder; a benchmark's files may be elsewhere now."""
        folder = Folder(checked_path(run, "run"))
        folder.read()
        results = folder.read_results()
        known, novel = results["classes"]["known"], results["classes"]["novel"]
        assignments = Assignments.read(folder.assignments, novel)
        if np.bincount(assignments.clusters, minlength=len(novel)).tolist() != results["cluster_sizes"]:
            raise RunError(
                f"{folder.assignments} must be as the run wrote it; got another number of images in its "
                "classes; bring it back"
            )
        source = folder.source()
        source = replace(source, data_dir=data_dir) if data_dir else source
        return cls(folder, known, novel, assignments, source)

    @property
    def edits(self) -> list[Edit]:
        """Those that stand."""
        return standing(self.log)

    @property
    def names(self) -> dict[int, str]:
        """Id → name; known classes first, then novel ones."""
        return names_after(self.edits, self.found)

    @property
    def ids(self) -> NDArray[np.integer]:
        """(n,) class of each image of the pile."""
        return replay(
            self.edits, self.assignments.clusters + self.num_known, by_rows(len(self.assignments.images))
        )

    @property
    def looks_known(self) -> NDArray[np.bool_]:
        """(n,) whether the model takes an image of a novel class for a known one."""
        return self.assignments.looks_known & (self.ids >= self.num_known)

    @property
    def classes(self) -> list[Reviewed]:
        """Novel classes, and known ones that images of the pile were merged into."""
        ids, confidence = self.ids, self.assignments.confidence
        rows = {key: np.flatnonzero(ids == key) for key in self.names}
        return [
            Reviewed(
                key,
                name,
                known=key < self.num_known,
                rows=rows[key],
                confidence=float(confidence[rows[key]].mean()) if len(rows[key]) else 0.0,
            )
            for key, name in self.names.items()
            if key >= self.num_known or len(rows[key])
        ]

    def rename(self, names: Mapping[str, str]) -> None:
        """Give novel classes other names: old → new."""
        names = {old: checked_name(new) for old, new in names.items() if old != new}
        if not names:
            raise UsageError("a rename needs a class and another name for it; got none; name one")
        ids = [self._novel(name) for name in names]
        left = [composed(name) for key, name in self.names.items() if key not in ids]
        for new in names.values():
            if new in left:
                raise UsageError(
                    f"a name must be free; {new!r} is a class already; make them one with newfound merge "
                    f"{self.folder.quoted}, or choose another"
                )
            left.append(new)
        self._add(Rename(ids, list(names.values())))

    def merge(self, into: str, *others: str) -> None:
        """Make novel classes part of another class, which may be a known one."""
        target, ids = self._id(into), [self._novel(name) for name in others]
        if not ids or target in ids or len(set(ids)) < len(ids):
            raise UsageError(
                f"merge takes a class and others that become part of it; got {', '.join([into, *others])}; "
                "name each once"
            )
        self._add(Merge(target, ids))

    def split(self, name: str, number: int = 2) -> None:
        """Let a novel class fall into parts, by k-means on the features of its images."""
        key = self._novel(name)
        rows = np.flatnonzero(self.ids == key)
        if len(rows) < 2:
            raise UsageError(
                f"a class must have 2 images or more to be split; {name!r} has {len(rows)}; leave it whole"
            )
        if not isinstance(number, int) or not 2 <= number <= len(rows):
            raise UsageError(
                f"a class can be split into 2 parts or more, up to one for each image; got {number} for "
                f"{name!r} with {len(rows)}; choose another number"
            )
        taken = [
            *self.found,
            *(part.id for edit in self.log if isinstance(edit, Split) for part in edit.parts),
        ]
        fresh = range(max(taken) + 1, max(taken) + number)
        names = [name, *free_names(name, number - 1, self.names.values())]
        images = [self.assignments.images[row] for row in rows.tolist()]
        features = pile_features(self.folder, images, self.source.data_dir)
        self._add(Split(key, parts_of(features, rows, [key, *fresh], names)))

    def move(self, into: str, *images: str) -> None:
        """Put images of the pile, given by path or its end, into another class, found or known."""
        self.move_rows(into, self._rows(images))

    def move_rows(self, into: str, images: Sequence[int]) -> None:
        """The same by their rows."""
        target, ids = self._id(into), self.ids
        if any(not 0 <= row < len(ids) for row in images):
            raise UsageError(f"rows must be from 0 to {len(ids) - 1}; got others; look at the images anew")
        images = list(dict.fromkeys(images))
        rows = [row for row in images if ids[row] != target]
        if not rows:
            there = shortened([os.path.basename(self.assignments.images[row]) for row in images])
            raise UsageError(
                f"a move needs images of the pile that are not in {into!r} yet; got {there}"
                f"{', there already' if images else ''}; name one from elsewhere"
            )
        self._add(Move(target, rows))

    def undo(self) -> Edit:
        """Take back the last edit, and return it."""
        if not self.edits:
            raise UsageError(
                f"there must be an edit to undo; {self.folder.path} has none; its classes are as found"
            )
        last = self.edits[-1]
        self._add(Undo())
        return last

    def _check_log(self) -> None:
        clusters = self.assignments.clusters + self.num_known
        if not fit(self.edits, self.found, self.num_known, clusters):
            raise RunError(
                f"{self.folder.edits} must hold edits of the classes of this run; got those of others; "
                "move it away to begin again with the classes as they were found"
            )

    def _add(self, edit: Edit) -> None:
        if not self._written([*self.log, edit]):
            raise UsageError(
                f"the classes of {self.folder.path} must be as they were when they were opened; somebody has "
                "edited them since; look at them again, then repeat the edit"
            )
        self.log.append(edit)

    def _written(self, log: Sequence[Edit]) -> bool:
        """Replace the log on disk, unless it is no longer the one that this continues."""
        _claim = claimed(self.folder.path)  # until this returns: nobody may write in between
        if read_edits(self.folder.edits, self.digest) != self.log:
            return False
        write_edits(self.folder.edits, self.digest, log)
        return True

    def _id(self, name: str) -> int:
        ids = {composed(each): key for key, each in self.names.items()}
        if not isinstance(name, str):
            raise UsageError(
                f"classes must be given by their names, one by one; got {name!r}; newfound classes "
                f"{self.folder.quoted} lists them"
            )
        if composed(name) not in ids:
            raise unknown("class", name, ids, f"newfound classes {self.folder.quoted} lists them")
        return ids[composed(name)]

    def _novel(self, name: str) -> int:
        key = self._id(name)
        if key < self.num_known:
            raise UsageError(
                f"only classes that were found can be renamed, split or merged into another; got the known "
                f"class {name!r}; name it first to merge others into it"
            )
        return key

    def _rows(self, images: Sequence[str]) -> list[int]:
        """Of images by their paths as in the table, or by ends of paths that only one has, as file names."""
        paths, names = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
        for row, path in enumerate(self.assignments.images):
            paths[path].append(row)
            names[os.path.basename(path)].append(row)
        rows = []
        for image in map(str, images):
            ends = [row for row in names.get(os.path.basename(image), []) if self._ends_in(row, image)]
            found = paths.get(image) or paths.get(os.path.abspath(image)) or ends
            if len(found) != 1:
                raise UsageError(
                    f"an image must be one of the pile; {len(found)} are called {image!r}; give its path as "
                    f"in {self.folder.assignments}"
                )
            rows += found
        return rows

    def _ends_in(self, row: int, end: str) -> bool:
        """Whether the path of an image ends in these folders and this name."""
        return f"{os.sep}{self.assignments.images[row]}".endswith(f"{os.sep}{end}")
