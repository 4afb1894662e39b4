"""Writing that never leaves half a file: to a temporary name, flushed, then renamed; and reading it back."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from newfound.core.errors import RunError, WriteError, in_words

RESUME = "with --resume where the command has it"
"""How a call is repeated that began a run."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the disk says into one clear error."""
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"{path} must be writable; got: {error.strerror or error}; what was there before is unharmed; "
            "free some space or mend the permissions, then repeat the call"
        ) from None


def check_writable(path: Path) -> None:
    """Say now, and not after hours of work, that `path` cannot be written; nothing is made for it."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        what = "cannot be written" if folder.is_dir() else "is a file"
        raise RunError(
            f"{path} must be in a folder that can be written; {folder} {what}; mend that, or choose another"
        )


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it when the block succeeds, remove it when it fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; rename it when the block succeeds, remove it when it fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        try:
            temporary.mkdir(parents=True)
            yield temporary
            temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Replace the file with `text`, atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Replace the file with `value` as readable JSON, atomically."""
    write_text(path, json.dumps(value, indent=2) + "\n")


@contextmanager
def reading(path: Path, remedy: str) -> Iterator[None]:
    """Turn what is wrong with a file that newfound wrote into one clear error."""
    try:
        yield
    except PermissionError:
        raise RunError(f"{path} must be readable; permission is denied; mend its permissions") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"{path} must be the JSON that newfound wrote; got: {in_words(error)}; {remedy}"
        ) from None


def read_json(path: Path, needed: Iterable[str], remedy: str) -> dict[str, Any]:
    """What `write_json` wrote, with these keys at least."""
    with reading(path, remedy):
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("something else")
        if missing := {*needed} - found.keys():
            raise ValueError(f"no {min(missing)}, perhaps since another version wrote it")
        return found
