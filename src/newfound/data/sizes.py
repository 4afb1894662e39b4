"""The one size of a run's images, chosen from the data."""

from collections.abc import Sequence
from statistics import median

from newfound.core.errors import UsageError
from newfound.data.decode import Size

LADDER = (32, 64, 96, 128, 224)
SMALL = 64
SMALLEST, LARGEST = 8, 1024


def choose_side(sizes: Sequence[Size]) -> tuple[int, str]:
    """Sizes of the images → the side of the square that all are resized to, and why.

    Small squares of one size stay as they are; otherwise the step of the ladder that is nearest, as a ratio,
    to the median of the shorter sides.
    """
    first, shorter = sizes[0], [min(size) for size in sizes]
    if SMALLEST <= first[0] <= SMALL and first[0] == first[1] and all(size == first for size in sizes):
        return first[0], "the size of every image"
    middle = median(shorter)
    side = min(LADDER, key=lambda step: max(step / middle, middle / step))
    return (
        side,
        f"of {', '.join(map(str, LADDER))} the nearest to the median of the shorter sides, {middle:g}",
    )


def check_side(side: int) -> int:
    """`side` itself, if images can be that small."""
    if not SMALLEST <= side <= LARGEST:
        raise UsageError(
            f"size must be at least {SMALLEST} pixels and at most {LARGEST}; got {side}; "
            "leave it out to choose it from the data"
        )
    return side
