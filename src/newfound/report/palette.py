"""What figures and pages share: marks that colour-blind readers can tell apart, and short names."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

Pictures = Callable[[Sequence[int], int], list[bytes]]
"""Rows of a run's unlabelled images, and the longest side in pixels → image files for a browser."""

# Any two colours differ clearly for every kind of colour blindness, and all stand out from the background:
# white, or almost black in the dark theme.
_LIGHT = (
    *("#0055ff", "#cc7755", "#227700", "#cc0055", "#990099"),
    *("#0099aa", "#669900", "#772211", "#000099", "#222222"),
)
_DARK = (
    *("#0077ff", "#ff9944", "#99ee77", "#dd2266", "#bb44bb"),
    *("#00ddff", "#eecc11", "#cc6600", "#ff66cc", "#f2f2f2"),
)
_SHAPES = (
    "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z",
    "M-.9-.9H.9V.9H-.9Z",
    "M0-1.1 1.1.9H-1.1Z",
    "M0-1.2 1.2 0 0 1.2-1.2 0Z",
    "M0 1.1 1.1-.9H-1.1Z",
    "M-.4-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z",
)


class Mark(NamedTuple):
    """How a page draws the images of a class."""

    path: str
    """SVG, around the origin, about 2 wide and high."""
    light: str
    """The colour on white."""
    dark: str
    """The colour on black."""
    filled: bool


UNSORTED_MARK = Mark("M-.9-.9.9.9M-.9.9.9-.9", "#7a7a7a", "#999999", False)
"""The mark of unsorted images."""


def colour(index: int) -> str:
    """The colour of a class on white; the ten colours repeat."""
    return _LIGHT[index % len(_LIGHT)]


def shape(index: int) -> int:
    """The shape of a class, one of six, which changes after every ten classes."""
    return index // len(_LIGHT) % len(_SHAPES)


def mark(index: int, known: bool) -> Mark:
    """The mark of a class, an outline if it is known. The first 60 known and 60 novel ones all differ."""
    return Mark(_SHAPES[shape(index)], colour(index), _DARK[index % len(_DARK)], not known)


def numbered(names: Sequence[str]) -> list[str]:
    """Class names after their index, for figures. Long names are cut, and `$` is escaped."""
    short = ((name if len(name) <= 18 else f"{name[:17]}…").replace("$", r"\$") for name in names)
    return [name if name == str(index) else f"{index} {name}" for index, name in enumerate(short)]
