"""A word about a stage whose first epoch is long."""

import time
from collections.abc import Callable

from newfound.core.records import Say

FIRST = 10.0
"""Seconds until the first word; each further one takes twice as long to come."""


class Patience:
    """Called with the number of steps done, says how long all of them will take.

    The first step does not count: it may compile. Where the host runs ahead of a GPU, it ends before a word.
    """

    def __init__(self, stage: str, steps: int, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        self.stage, self.steps, self.say, self.clock = stage, steps, say, clock
        self.began, self.wait = clock(), FIRST

    def __call__(self, done: int) -> None:
        now = self.clock()
        if done == 1:
            self.began = now
        elif now - self.began >= self.wait:
            self.wait *= 2
            left = (self.steps - done) * (now - self.began) / (done - 1)
            self.say(f"{self.stage}: step {done:,} of {self.steps:,}, {left:.0f} s left at this rate")
