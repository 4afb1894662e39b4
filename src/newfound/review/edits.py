"""The log of a review: one JSON line for each edit, to which lines are only ever added.

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
class Undo:
    """The last edit that still stands is taken back."""


Edit = Rename | Merge | Split | Undo
KINDS: dict[str, type[Edit]] = {"rename": Rename, "merge": Merge, "split": Split, "undo": Undo}


def standing(edits: Sequence[Edit]) -> list[Edit]:
    """What is left of a log once everything undone is taken out."""
    left: list[Edit] = []
    for edit in edits:
        if not isinstance(edit, Undo):
            left.append(edit)
        elif left:
            left.pop()
    return left


def read_edits(path: Path) -> list[Edit]:
    """All edits of a log; none where there is no log yet."""
    if not path.exists():
        return []
    try:
        return [_edit(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = "something else" if isinstance(error, ValidationError) else repr(error)
        raise RunError(
            f"{path} must hold the edits that newfound wrote; got: {why}; move it away to begin again with "
            "the classes as they were found"
        ) from None


def write_edits(path: Path, edits: Sequence[Edit]) -> None:
    """Replace the log by a longer one."""
    names = {kind: name for name, kind in KINDS.items()}
    lines = [json.dumps({"edit": names[type(edit)]} | asdict(edit), ensure_ascii=False) for edit in edits]
    write_text(path, "".join(f"{line}\n" for line in lines))


def _edit(line: str) -> Edit:
    fields = json.loads(line)
    edit: Edit = TypeAdapter(KINDS[fields.pop("edit")]).validate_python(fields)
    return edit
