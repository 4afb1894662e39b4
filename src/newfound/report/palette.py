"""Colours that stay apart for colour-blind readers, the same for the same class in every figure."""

from collections.abc import Sequence

_COLOURS = (
    "#332288",
    "#88ccee",
    "#117733",
    "#eebb33",
    "#cc6677",
    "#882255",
    "#44aa99",
    "#999933",
    "#aa4499",
    "#222222",
)
"""Paul Tol's muted scheme, its pale yellow made stronger to be seen on white, and near-black."""


def colour(index: int) -> str:
    """The colour of a class; beyond ten they repeat, and the index drawn beside them tells classes apart."""
    return _COLOURS[index % len(_COLOURS)]


def numbered(names: Sequence[str]) -> list[str]:
    """Class names with the index that marks them in the figures; long ones are cut, a dollar is a dollar."""
    short = ((name if len(name) <= 18 else f"{name[:17]}…").replace("$", r"\$") for name in names)
    return [name if name == str(index) else f"{index} {name}" for index, name in enumerate(short)]
