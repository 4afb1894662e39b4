"""edits.jsonl, the log of a review: a header, then a line for each edit. Lines are only ever added.

Classes are identified by id: the known classes first, then the discovered ones, then those split off. No id
is used twice, whatever is merged or undone. -1 is the group of unsorted images.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from newfound.core.files import read_text, reading, write_text
from newfound.metrics.report import Record
from newfound.run.models import Versioned

UNSORTED_ID = -1
"""The id of the unsorted group."""


class Header(Versioned):
    """The first line of the log."""

    of: str
    """Digest of the assignments that the edits belong to."""


class Rename(Record):
    """Give classes other names."""

    edit: Literal["rename"] = "rename"
    ids: list[int]
    names: list[str]


class Merge(Record):
    """Merge classes into another one."""

    edit: Literal["merge"] = "merge"
    into: int
    ids: list[int]


class Part(Record):
    """One part of a split class."""

    id: int
    name: str
    rows: list[int]
    """Its images, as rows of the run's unlabelled ones."""
    centre: list[float]
    """The mean of their unit-length features. A new image goes to the part with the nearest centre."""


class Split(Record):
    """Divide a class into parts; the first keeps its id."""

    edit: Literal["split"] = "split"
    id: int
    parts: list[Part]


class Move(Record):
    """Move single images to another class."""

    edit: Literal["move"] = "move"
    into: int
    rows: list[int]


class Accept(Record):
    """Confirm the classes of these images."""

    edit: Literal["accept"] = "accept"
    rows: list[int]


class Undo(Record):
    """Undo the last edit in effect."""

    edit: Literal["undo"] = "undo"


Edit = Rename | Merge | Split | Move | Accept | Undo
LINE: TypeAdapter[Edit] = TypeAdapter(Annotated[Edit, Field(discriminator="edit")])
"""Parses a line of the log."""


def in_effect(log: Sequence[Edit]) -> list[Edit]:
    """The edits of a log that have not been undone."""
    left: list[Edit] = []
    for edit in log:
        if not isinstance(edit, Undo):
            left.append(edit)
        elif left:
            left.pop()
    return left


def stored_edits(path: Path) -> str:
    """The text of the log; empty if there is no file."""
    return read_text(path) if path.exists() else ""


def read_edits(path: Path) -> tuple[str, list[Edit]]:
    """The digest of the edited assignments, and the log; both empty if there is no file."""
    lines = [line for line in stored_edits(path).splitlines() if line.strip()]
    with reading(path, "a log of edits"):
        of = Header.model_validate_json(lines[0]).of if lines else ""
        return of, [LINE.validate_json(line) for line in lines[1:]]


def write_edits(path: Path, of: str, log: Sequence[Edit], before: str = "") -> str:
    """Start a log with these edits, or add them to its text `before`, atomically; returns the new text."""
    lines = log if before else (Header(of=of), *log)
    text = before + "".join(f"{line.model_dump_json()}\n" for line in lines)
    write_text(path, text)
    return text
