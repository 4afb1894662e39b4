"""Files that are never half written: a temporary name, flushed, then renamed."""

import errno
import glob
import json
import math
import mmap
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, BinaryIO, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import PydanticCustomError

from newfound.core.errors import Hint, NewfoundError, RunError, UsageError, reason_of

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
DATASETS = "datasets:"
"""Prefix of the name or folder of a Hugging Face dataset, with an optional split: datasets:beans:train."""
SYSTEM = Path("/")
"""Where Linux says how much memory there is, and how many cores a container may use."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a file system error into a one-line RunError."""
    try:
        yield
    except (OSError, RecursionError) as error:  # pathlib creates parents recursively
        raise RunError(
            f"Cannot write {path}: {reason_of(error)}. Existing files are unharmed.", Hint.RETRY
        ) from None


def check_writable(path: Path) -> None:
    """Fail early if `path` cannot be written; nothing is created."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        reason = "Permission denied" if folder.is_dir() else f"{folder} is a file"
        raise RunError(f"Cannot write {path}: {reason}.", Hint.NEW_FOLDER)


def free_memory() -> float:
    """Bytes of memory that this process may still allocate; infinite if the system does not say."""
    free = math.inf
    with suppress(OSError, KeyError, ValueError):
        free = 2**10 * _numbers(SYSTEM / "proc/meminfo")["MemAvailable:"]
        for group in _groups("memory"):
            free = min(free, _room(group))
    return free


def cores() -> int:
    """How many cores this process may use, by its affinity and the CPU quota of a container."""
    number = float(len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1)
    with suppress(OSError, ValueError):
        for group in _groups("cpu"):
            number = min(number, _quota(group))
    return max(math.ceil(number), 1)


def used_memory() -> float:
    """Bytes of memory that this process takes; 0 if the system does not say."""
    with suppress(OSError):
        return float((SYSTEM / "proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    return 0.0


def _groups(controller: str) -> Iterator[Path]:
    """The control groups that limit this process, of a container or Slurm, from the innermost to the root."""
    for line in (SYSTEM / "proc/self/cgroup").read_text().splitlines():
        _, controllers, name = line.split(":", 2)
        if controller in (controllers or controller).split(","):  # version 2 names none
            root = SYSTEM / "sys/fs/cgroup" / controllers
            group = root / name.lstrip("/")
            yield from (each for each in (group, *group.parents) if each.is_relative_to(root))


def _room(group: Path) -> float:
    """Bytes that a control group may still allocate; pages of files read before make room for them."""
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        if (group / limit).exists():
            pages = _numbers(group / "memory.stat")
            inactive = pages["total_inactive_file" if "total_inactive_file" in pages else "inactive_file"]
            most, now = ((group / each).read_text().replace("max", "inf") for each in (limit, used))
            return float(most) - float(now) + inactive
    return math.inf


def _quota(group: Path) -> float:
    """How many cores' time a control group may use."""
    if (group / "cpu.max").exists():
        quota, period = (group / "cpu.max").read_text().replace("max", "inf").split()
    elif (group / "cpu.cfs_quota_us").exists():
        quota, period = ((group / f"cpu.cfs_{each}_us").read_text() for each in ("quota", "period"))
    else:
        return math.inf
    return float(quota) / float(period) if float(quota) > 0 else math.inf


def _numbers(path: Path) -> dict[str, float]:
    """The lines of a system file, such as `inactive_file 4096`."""
    lines = (line.split() for line in path.read_text().splitlines())
    return {name: float(value) for name, value, *_ in lines}


def free_disk(place: Path) -> int:
    """Free bytes on the disk where `place` is or will be."""
    return shutil.disk_usage(next(each for each in (place, *place.absolute().parents) if each.exists())).free


def in_units(number: float) -> str:
    """A number of bytes as text, such as `1.5 GiB`."""
    if number >= 2**29:
        return f"{number / 2**30:,.1f} GiB"
    return f"{number / 2**20:,.0f} MiB" if number >= 2**20 else f"{number / 2**10:,.0f} KiB"


def check_fits(what: str, needed: float, free: float, hint: Hint | None) -> None:
    """Refuse work that needs more bytes of memory or disk than are free."""
    if needed > free:
        sizes = f"about {in_units(needed)} are needed, and {in_units(free)} are free"
        raise UsageError(f"Not enough {what}: {sizes}.", hint)


def check_apart(path: Path, *sources: str | None) -> None:
    """Refuse an output inside an image folder, where it would be read as an image."""
    for images in sources:
        if images and os.path.isdir(images) and _real(path).is_relative_to(_real(images)):
            raise UsageError(f"{path} lies inside the image folder {images}.", Hint.NEW_FOLDER)


def _real(path: str | Path) -> Path:
    """The path with its links resolved, as far as it exists."""
    return Path(os.path.realpath(path))


def check_new(path: Path, *sources: str | None) -> None:
    """Refuse an output that exists, lies inside an image folder or cannot be written.

    Removes what a killed process left of an earlier attempt.
    """
    if os.path.lexists(path):
        raise UsageError(f"{path} already exists.", Hint.NEW_FOLDER)
    check_apart(path, *sources)
    check_writable(path)
    remove_leftovers(path.parent, glob.escape(path.name))


def remove_leftovers(folder: Path, names: str = "*") -> None:
    """Remove the temporary files and folders that killed processes left behind."""
    for leftover in folder.glob(f".{names}.{'[0-9a-f]' * 16}.tmp"):
        is_folder = leftover.is_dir() and not leftover.is_symlink()
        shutil.rmtree(leftover) if is_folder else leftover.unlink()


def _checked_path(given: object) -> Path:
    """A path in UTF-8, which must not be empty, since that would mean the current folder."""
    text = str(given) if isinstance(given, str | os.PathLike) else ""
    if text and "\0" not in text and text.encode(errors="ignore").decode() == text:
        return Path(text)
    raise PydanticCustomError("path", "Input should be a path")


AnyPath = Annotated[str | Path, BeforeValidator(_checked_path)]
"""A path as an argument of a `public` function."""


def _checked_place(given: object) -> object:
    """The same as text, or a URL."""
    return str(_checked_path(given)) if "://" not in str(given) else str(given)


def located(name: str, folder: str | Path = "") -> str:
    """The absolute path of `name`, relative to `folder`; URLs and dataset names stay as they are."""
    name = name.removeprefix("file://")
    if name.startswith(DATASETS):
        place = name.removeprefix(DATASETS)
        return DATASETS + os.path.abspath(place) if os.path.exists(place.partition(":")[0]) else name
    return name if "://" in name else os.path.abspath(os.path.join(folder, name))


AnyPlace = Annotated[str | Path, BeforeValidator(_checked_place)]
"""A path or URL as an argument of a `public` function."""


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a new file beside `path`; rename it if the block succeeds, remove it if not."""
    temporary = _temporary(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
        try:
            yield temporary
            with temporary.open("r+b") as file:  # Windows only flushes a writable file
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder beside `path`; rename it if the block succeeds, remove it if not."""
    temporary = _temporary(path)
    with writing(path):
        temporary.mkdir(parents=True)
        try:
            yield temporary
            temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _temporary(path: Path) -> Path:
    """A random temporary name: processes on several machines may share a folder and even their ids."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


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


@contextmanager
def reading(
    path: Path | str, what: str, kind: type[NewfoundError] = RunError, hint: Hint | None = None
) -> Iterator[None]:
    """Turn any error of the block into one line that names the file: it is unreadable, or not `what`."""
    try:
        yield
    except NewfoundError:
        raise
    except Exception as error:  # parsers raise almost anything on damaged files
        found = not isinstance(error, OSError | ImportError)  # fsspec imports what it needs for an address
        said = f"{path} is not {what}" if found else f"Cannot read {path}"
        problem = field_problem(error) if isinstance(error, ValidationError) else reason_of(error)
        raise kind(f"{said}: {problem.rstrip('.')}.", hint) from None


def field_problem(error: ValidationError) -> str:
    """The first problem with its field: `seed: Input should be a valid integer`."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


def open_plain(path: str | Path) -> BinaryIO:
    """Open a regular file for reading; a pipe or a device, which could block for ever, is an error."""
    file = os.fdopen(
        os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb"
    )
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "Not a regular file", str(path))


def read_bytes(path: str | Path) -> bytes:
    """The content of a regular file, or of a URL that fsspec reads."""
    if "://" in str(path):
        from fsspec.core import url_to_fs  # slow to import

        system, name = url_to_fs(str(path))
        content: bytes = system.cat_file(name)
        return content
    with open_plain(path) as file:
        return file.read()


def read_text(path: Path | str) -> str:
    """The text of a regular UTF-8 file, with or without a byte-order mark; line endings are kept."""
    with reading(path, "a text file in UTF-8"):
        return read_bytes(path).decode("utf-8-sig")


def read_record(path: Path, model: type[M]) -> M:
    """Read what `write_record` wrote; if the shape or version differs, the error names the field."""
    with reading(path, f"a valid {model.__name__}"):
        return model.model_validate_json(read_text(path))


BLANK = "0" * 32
UNSEALED = {"digest": BLANK}
"""The metadata field of a safetensors file that `write_tensors` fills."""


class _Header(BaseModel):
    """The header of a safetensors file, which also has a field for each tensor."""

    facts: dict[str, str] = Field(default_factory=dict, alias="__metadata__")


def write_tensors(path: Path, content: bytes) -> None:
    """Write a serialised safetensors file and replace `UNSEALED` in its metadata with a digest."""
    with atomic(path) as temporary:
        temporary.write_bytes(content.replace(_seal(BLANK), _seal(_digest(content)), 1))


def read_tensors(path: Path, load: Callable[[bytes], dict[str, T]]) -> tuple[dict[str, T], dict[str, str]]:
    """The tensors of a safetensors file, read with a framework's `load`, and its metadata.

    A file that has changed since `write_tensors` wrote it is an error.
    """
    content = read_bytes(path)
    end = 8 + int.from_bytes(content[:8], "little")
    facts = _Header.model_validate_json(content[8:end]).facts
    if (found := facts.get("digest", BLANK)) != BLANK:
        content = content.replace(_seal(found), _seal(BLANK), 1)
        if _digest(content) != found:
            raise ValueError("its content has changed since it was written")
    return load(content), facts


def _seal(digest: str) -> bytes:
    """The digest's field as the header spells it; no other text there has these quotes unescaped."""
    return f'"digest":"{digest}"'.encode()


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
