"""Colours that colour-blind readers can tell apart, the same for a class in every figure."""

from collections.abc import Sequence

# Paul Tol's muted scheme, its pale yellow made stronger to be seen on white, and near-black.
_COLOURS = (
    *("#332288", "#88ccee", "#117733", "#eebb33", "#cc6677"),
    *("#882255", "#44aa99", "#999933", "#aa4499", "#222222"),
)


def colour(index: int) -> str:
    """The colour of a class; beyond ten they repeat, and the index drawn beside them tells classes apart."""
    return _COLOURS[index % len(_COLOURS)]


def numbered(names: Sequence[str]) -> list[str]:
    """Class names after their index, as in the figures; long ones are cut, and a dollar starts no formula."""
    short = ((name if len(name) <= 18 else f"{name[:17]}…").replace("$", r"\$") for name in names)
    return [name if name == str(index) else f"{index} {name}" for index, name in enumerate(short)]
