"""Reading files on all cores.

Decoding threads mostly wait for Python's lock, so large numbers of files are read by the worker processes of
torch's `DataLoader`, which write into arrays shared with this process.
"""

import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from mmap import mmap
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError
from torch.utils.data import DataLoader, Dataset

from newfound.core import dist
from newfound.core.errors import DataError, Hint, reason_of
from newfound.core.files import cores

R = TypeVar("R")
T = TypeVar("T")
FILES = 64
"""Files in one part, which is what a worker reads at a time."""
FEWEST = 16
"""Fewer parts than this do not justify worker processes."""
MOST_WORKERS = 32
AHEAD = 2
"""Parts that each worker is given in advance."""
AT_ONCE = 8
"""Remote files that each worker reads at once, since it mostly waits for them."""


@dataclass(frozen=True)
class Part(Generic[R]):
    """The result of reading some consecutive files."""

    rows: Sequence[int]
    found: dict[int, R]
    """Row → result, of the files that could be read."""
    failed: list[str]
    """The other files, each with the reason."""
    large: list[int]
    """Rows of files that have to be read alone."""

    @property
    def kept(self) -> list[int]:
        """The rows of the files that could be read."""
        return sorted(self.found)

    @property
    def results(self) -> list[R]:
        """Their results, in the same order."""
        return [self.found[row] for row in self.kept]


class TooLarge(Exception):  # noqa: N818 (not an error: the file is read later)
    """A file needs a lot of memory and other files are being read at the same time."""


_here = threading.local()


def check_alone() -> None:
    """Postpone a file that needs a lot of memory until this process reads no other."""
    if getattr(_here, "crowded", False):
        raise TooLarge


def read_each(
    paths: Sequence[str],
    read: Callable[[int], R],
    strict: bool = False,
    size: int = FILES,
    remote: bool = False,
) -> Iterator[Part[R]]:
    """Call `read` with each row of `paths`, on all cores; yields parts of `size` files, in order.

    Arrays that `read` fills must be `shared`. With `strict`, the first file that cannot be read is an error.
    Files that need a lot of memory are read one by one. If they are `remote`, workers read several at once.
    """
    workers = num_workers(len(paths), size)
    threads = max(AT_ONCE * remote, 0 if workers else cores())
    loader = DataLoader(
        _Parts(paths, read, size, partial(_on_threads, threads) if threads else map),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=AHEAD if workers else None,
        multiprocessing_context="fork" if workers else None,
        worker_init_fn=_heed_parent,
    )
    try:
        for part in _started(loader):
            if part.large:
                more = _attempt(paths, read, part.large, map, crowded=False)
                part = replace(part, found=part.found | more.found, failed=part.failed + more.failed)
            if strict and part.failed:
                raise DataError(f"Cannot read {part.failed[0]}.", Hint.NO_STRICT)
            yield part
    except BaseException as error:
        raise error.with_traceback(None) from None  # frames of the loader would keep its workers


def read_all(
    paths: Sequence[str], read: Callable[[int], R], strict: bool = False
) -> tuple[dict[int, R], list[str]]:
    """Row → result of every file that can be read, and the other files with the reason."""
    found, failed = dict[int, R](), list[str]()
    for part in read_each(paths, read, strict):
        found |= part.found
        failed += part.failed
    return found, failed


def num_workers(files: int, size: int) -> int:
    """One worker for each of this process's cores, up to a limit; none for few files or unsafe forks."""
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return 0
    own = dist.own_cores(cores())
    return min(own, MOST_WORKERS) if own > 1 and files >= FEWEST * size else 0


def shared(*shape: int) -> npt.NDArray[np.uint8]:
    """An array that workers can fill for this process; unlike torch's, it is not limited by /dev/shm."""
    number = math.prod(shape)
    return np.frombuffer(mmap(-1, max(number, 1)), np.uint8, number).reshape(shape)


class _Parts(Dataset[Part[R]]):
    def __init__(
        self, paths: Sequence[str], read: Callable[[int], R], size: int, each: Callable[..., Iterator[str]]
    ) -> None:
        self.paths, self.read, self.size, self.each = paths, read, size, each

    def __len__(self) -> int:
        return math.ceil(len(self.paths) / self.size)

    def __getitem__(self, number: int) -> Part[R]:
        rows = range(len(self.paths))[number * self.size :][: self.size]
        return _attempt(self.paths, self.read, rows, self.each, crowded=True)


def _attempt(
    paths: Sequence[str],
    read: Callable[[int], R],
    rows: Sequence[int],
    each: Callable[..., Iterator[str]],
    crowded: bool,
) -> Part[R]:
    """Read these rows with `each`, which is some form of map."""
    part = Part[R](rows, {}, [], [])

    def attempt(row: int) -> str:
        _here.crowded = crowded
        try:
            part.found[row] = read(row)
        except TooLarge:
            part.large.append(row)
        except Exception as error:  # Pillow's readers raise whatever their parsers raise
            return f"{paths[row]}: {_reason(error)}"
        finally:
            _here.crowded = False
        return ""

    part.failed.extend(filter(None, each(attempt, rows)))
    return part


def _started(loader: DataLoader[Part[R]]) -> Iterator[Part[R]]:
    """The loader's parts. Ctrl-C stops this process, which stops its workers, but not while they start."""
    if not loader.num_workers:
        return iter(loader)
    waiting: list[int] = []
    # Workers inherit all of it, so they ignore signals and do not wake up listeners of this process's.
    before = signal.signal(signal.SIGINT, lambda number, frame: waiting.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    listener = signal.set_wakeup_fd(-1)
    try:
        return iter(loader)
    finally:
        signal.set_wakeup_fd(listener)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
        if waiting:
            signal.raise_signal(signal.SIGINT)


def _on_threads(number: int, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """`map` on this many threads."""
    return _threads(os.getpid(), number).map(function, items)


def _heed_parent(worker: int) -> None:
    """Let a worker end at its parent's SIGTERM, but not at Slurm's, which goes to all processes."""

    def wait() -> None:
        while signal.sigwaitinfo([signal.SIGTERM]).si_pid != os.getppid():
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


@cache
def _threads(process: int, number: int) -> ThreadPoolExecutor:
    """The threads of a process; a fork has none of its parent's."""
    return ThreadPoolExecutor(number, thread_name_prefix="read")


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not an image that Pillow can read"
    if isinstance(error, Image.DecompressionBombError) and Image.MAX_IMAGE_PIXELS:
        return f"more than {2 * Image.MAX_IMAGE_PIXELS:,} pixels, Pillow's limit; scale it down"
    return reason_of(error)
