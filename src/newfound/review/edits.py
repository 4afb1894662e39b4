"""The log of a review: a line that tells what it is of, then one for each edit; lines are only ever added.

A class is known by its id: the known classes come first, then those that the run found, then those split off.
No id is used twice, whatever is merged or undone.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from newfound.core.errors import RunError
from newfound.engine.files import write_text


@dataclass(frozen=True)
class Rename:
    """Classes get other names."""

    ids: list[int]
    names: list[str]


@dataclass(frozen=True)
class Merge:
    """Classes become part of another one."""

    into: int
    ids: list[int]


@dataclass(frozen=True)
class Part:
    """Some images of a class."""

    id: int
    name: str
    rows: list[int]
    """Images of the pile."""
    centre: list[float]
    """The mean of their features, each at unit length, by which new images are told apart."""


@dataclass(frozen=True)
class Split:
    """A class falls into parts, of which the first keeps its id."""

    id: int
    parts: list[Part]


@dataclass(frozen=True)
class Move:
    """Images of the pile come into another class."""

    into: int
    rows: list[int]


@dataclass(frozen=True)
class Undo:
    """The last edit that still stands is taken back."""


T = TypeVar("T")
Edit = Rename | Merge | Split | Move | Undo
KINDS: dict[str, type[Edit]] = {
    "rename": Rename,
    "merge": Merge,
    "split": Split,
    "move": Move,
    "undo": Undo,
}


def standing(edits: Sequence[Edit]) -> list[Edit]:
    """What is left of a log once everything undone is taken out."""
    left: list[Edit] = []
    for edit in edits:
        if not isinstance(edit, Undo):
            left.append(edit)
        elif left:
            left.pop()
    return left


def read_edits(path: Path, of: str) -> list[Edit]:
    """All edits of a log, which must be of the assignments with the digest `of`; none without a log."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    first, *others = numbered or [(1, "")]
    begins = _read(path, *first, lambda fields: str(fields["of"]))
    edits = [_read(path, *each, _edit) for each in others]
    if begins != of:
        raise RunError(
            f"{path} must hold edits of what assignments.csv says; got those of another run, or that file "
            "has changed; bring it back, or move the edits away to begin again with the classes as found"
        )
    return edits


def write_edits(path: Path, of: str, edits: Sequence[Edit]) -> None:
    """Replace the log by a longer one."""
    names = {kind: name for name, kind in KINDS.items()}
    lines = [{"of": of}, *({"edit": names[type(edit)]} | asdict(edit) for edit in edits)]
    write_text(path, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))


def _read(path: Path, number: int, line: str, use: Callable[[dict[str, Any]], T]) -> T:
    try:
        return use(json.loads(line))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = "something else" if isinstance(error, ValidationError) else repr(error)
        raise RunError(
            f"{path} must hold the edits that newfound wrote; got in line {number}: {why}; mend or remove "
            "that line, or move the file away to begin again with the classes as they were found"
        ) from None


def _edit(fields: dict[str, Any]) -> Edit:
    edit: Edit = TypeAdapter(KINDS[fields.pop("edit")]).validate_python(fields)
    return edit
