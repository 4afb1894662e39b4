"""edits.jsonl, the log of a review: a header, then one line for each edit; lines are only ever added.

Classes are identified by id: the known classes first, then the discovered ones, then those split off. No id
is used twice, whatever is merged or undone; -1 is the group of unsorted images.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from newfound.core.errors import RunError
from newfound.core.files import field_problem, read_text, write_text
from newfound.metrics.report import Record
from newfound.run.models import Versioned

UNSORTED_ID = -1


class Header(Versioned):
    """The first line."""

    of: str
    """Digest of the assignments that were edited."""


class Rename(Record):
    """Classes get other names."""

    edit: Literal["rename"] = "rename"
    ids: list[int]
    names: list[str]


class Merge(Record):
    """Classes become part of another one."""

    edit: Literal["merge"] = "merge"
    into: int
    ids: list[int]


class Part(Record):
    """Some images of a class that is split."""

    id: int
    name: str
    rows: list[int]
    """Unlabelled images of the run."""
    centre: list[float]
    """Mean of their unit-length features; new images go to the part with the nearest centre."""


class Split(Record):
    """A class is divided into parts, of which the first keeps its id."""

    edit: Literal["split"] = "split"
    id: int
    parts: list[Part]


class Move(Record):
    """Single images change their class."""

    edit: Literal["move"] = "move"
    into: int
    rows: list[int]


class Accept(Record):
    """A person confirms the classes of these images."""

    edit: Literal["accept"] = "accept"
    rows: list[int]


class Undo(Record):
    """The last edit in effect is undone."""

    edit: Literal["undo"] = "undo"


Edit = Rename | Merge | Split | Move | Accept | Undo
LINE: TypeAdapter[Edit] = TypeAdapter(Annotated[Edit, Field(discriminator="edit")])


def in_effect(log: Sequence[Edit]) -> list[Edit]:
    """The edits of a log that were not undone."""
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
    """The digest of the assignments that were edited, and the log; both empty if there is no file."""
    header, log, number = Header(of=""), list[Edit](), 0
    try:
        for number, line in enumerate(stored_edits(path).splitlines(), start=1):
            if number == 1:
                header = Header.model_validate_json(line)
            elif line.strip():
                log.append(LINE.validate_json(line))
    except ValidationError as error:
        raise RunError(f"{path} is damaged in line {number}: {field_problem(error)}.") from None
    return header.of, log


def write_edits(path: Path, of: str, log: Sequence[Edit], before: str = "") -> str:
    """Begin a log with these edits, or add them to the text of one, atomically; returns the new text."""
    lines = log if before else (Header(of=of), *log)
    text = before + "".join(f"{line.model_dump_json()}\n" for line in lines)
    write_text(path, text)
    return text
