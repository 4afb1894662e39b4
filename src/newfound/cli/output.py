"""Where the command line prints."""

from collections.abc import Sequence

from rich.console import Console

from newfound.data.images import Dataset

UNFOLDED = 1000
"""Columns, where no terminal sets a limit."""
FEW = 20
"""Lines about what was left out; those that stand for many files, twelve at most, come first."""


def show_images(console: Console, dataset: Dataset) -> None:
    """What was loaded, what looks wrong with it, and what was left out."""
    console.print(dataset.note)
    show_warnings(console, dataset.warnings)
    show_left_out(console, dataset.skipped)


def show_left_out(console: Console, lines: Sequence[str]) -> None:
    """A line for each of the first few, whatever characters the name of a file has, and how many more."""
    for line in lines[:FEW]:
        shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in line)
        console.print(f"left out: {shown}")
    if len(lines) > FEW:
        console.print(f"left out: {len(lines) - FEW:,} more, not listed")


def show_warnings(console: Console, lines: Sequence[str]) -> None:
    """A line for each."""
    for line in lines:
        console.print(f"warning: {line}")


def output() -> Console:
    """Standard output; what is not a terminal gets plain lines, each as long as it is."""
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = UNFOLDED
    return console
