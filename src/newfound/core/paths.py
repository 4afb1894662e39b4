"""Paths that a caller in Python gives."""

from os import PathLike
from pathlib import Path

from newfound.core.errors import UsageError


def checked_path(given: object, name: str) -> Path:
    """The path that the argument `name` is; an empty one would mean the current folder."""
    if isinstance(given, str | PathLike) and given != "":
        return Path(given)
    raise UsageError(f"{name} must be a path; got {given!r:.60}; give a string or a pathlib.Path")
