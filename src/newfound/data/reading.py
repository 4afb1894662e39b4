"""How the reading of many files goes on, and what looks wrong with them."""

from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TypeVar

from newfound.core.records import OFTEN, Say
from newfound.data.depth import depth_warnings

T = TypeVar("T")


class Reading:
    """Says now and then how many of the files are read; nothing of those that are read in a moment."""

    def __init__(self, of: int, say: Say) -> None:
        self.of, self.say, self._done = of, say, 0
        self._began = self._said = monotonic()
        self.deep: list[int] = []
        """The largest value of each file with more than 8 bits."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What looks wrong with the files that were read."""
        return depth_warnings(self.deep)

    def over(self, results: Iterable[T]) -> Iterator[T]:
        """The same results, each of which stands for one more file."""
        for result in results:
            self._done += 1
            self._tell(monotonic())
            yield result

    def _tell(self, now: float) -> None:
        if now - self._said >= OFTEN and self._done < self.of:
            self._said = now
            left = (now - self._began) / self._done * (self.of - self._done)
            self.say(f"reading images {self._done:,}/{self.of:,}, {left:.0f} s left")
