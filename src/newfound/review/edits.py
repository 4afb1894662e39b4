"""The log of a review: a line that tells what it is of, then one for each edit; lines are only ever added.

A class is known by its id: the known classes come first, then those that the run found, then those split off.
No id is used twice, whatever is merged or undone.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

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
    edits = [_read(path, *each) for each in numbered[1:]]
    if not numbered or numbered[0][1] != _begins(of):
        raise RunError(
            f"{path} must hold edits of what assignments.csv says; got those of another run or version, or "
            "that file has changed; bring it back, or move the edits away to begin again with the classes as "
            "found"
        )
    return edits


def write_edits(path: Path, of: str, edits: Sequence[Edit]) -> None:
    """Replace the log by a longer one."""
    names = {kind: name for name, kind in KINDS.items()}
    lines = [json.dumps({"edit": names[type(edit)]} | asdict(edit), ensure_ascii=False) for edit in edits]
    write_text(path, "".join(f"{line}\n" for line in [_begins(of), *lines]))


def _begins(of: str) -> str:
    return json.dumps({"edits of": of})


def _read(path: Path, number: int, line: str) -> Edit:
    try:
        fields = json.loads(line)
        edit: Edit = TypeAdapter(KINDS[fields.pop("edit")]).validate_python(fields)
        return edit
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = "something else" if isinstance(error, ValidationError) else repr(error)
        raise RunError(
            f"{path} must hold the edits that newfound wrote; got in line {number}: {why}; mend or remove "
            "that line, or move the file away to begin again with the classes as they were found"
        ) from None
