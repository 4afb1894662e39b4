"""Files that are never half written: a temporary name, flushed, then renamed."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from newfound.core.errors import Hint, RunError, UsageError, reason_of

M = TypeVar("M", bound=BaseModel)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the file system into one line."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"Cannot write {path}: {reason_of(error)}. Existing files are unharmed.", Hint.RETRY
        ) from None


def check_writable(path: Path) -> None:
    """Fail early if `path` cannot be written; nothing is created."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        reason = "Permission denied" if folder.is_dir() else f"{folder} is a file"
        raise RunError(f"Cannot write {path}: {reason}.", Hint.NEW_FOLDER)


def check_apart(path: Path, *sources: str | None) -> None:
    """Refuse an output among the images: it would be read as one of them."""
    for images in sources:
        if images and Path(images).is_dir() and path.resolve().is_relative_to(Path(images).resolve()):
            raise UsageError(f"{path} lies inside the image folder {images}.", Hint.NEW_FOLDER)


def as_path(given: object, name: str) -> Path:
    """The path that the argument `name` is; an empty one would mean the current folder."""
    if isinstance(given, str | os.PathLike) and str(given):
        return Path(given)
    raise UsageError(f"{name} must be a path, got {given!r:.60}.")


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it if the block succeeds, remove it if not."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            with temporary.open("r+b") as file:  # Windows flushes only what may be written
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """The same for a new folder."""
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


def write_json(path: Path, value: object) -> None:
    """Replace the file with `value` as readable JSON, atomically."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_record(path: Path, record: BaseModel) -> None:
    """Replace the file with a record as readable JSON, atomically."""
    write_json(path, record.model_dump(mode="json", by_alias=True, exclude_none=True))


def read_text(path: Path) -> str:
    """The text of a plain file in UTF-8, with or without a byte-order mark."""
    try:
        if path.exists() and not path.is_file():  # reading a named pipe would wait for ever
            raise OSError("not a regular file")
        text = path.read_bytes().decode("utf-8-sig")  # line ends as they are
    except OSError as error:
        raise RunError(f"Cannot read {path}: {reason_of(error)}.") from None
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise RunError(f"{path} is not a text file in UTF-8.")
    return text


def read_record(path: Path, model: type[M]) -> M:
    """A record that `write_record` wrote; another shape or version is one line that names the field."""
    try:
        return model.model_validate_json(read_text(path))
    except ValidationError as error:
        raise RunError(f"{path} is not a valid {model.__name__}: {field_problem(error)}.") from None


def field_problem(error: ValidationError) -> str:
    """The first problem with its field: `seed: Input should be a valid integer`."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]
