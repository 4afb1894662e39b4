"""Work done on the host while the device is busy."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
STEPS = 2
"""How far ahead the work is."""


def ahead(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """`map`, the results of the next items being worked out on another thread while one is used."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="ahead")
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > STEPS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:  # what nobody wants any more is not begun
        pool.shutdown(cancel_futures=True)
