"""Where the command line prints."""

from collections.abc import Iterable

from rich.console import Console

UNFOLDED = 1000
"""Columns, where no terminal sets a limit."""


def show_left_out(console: Console, lines: Iterable[str]) -> None:
    """A line for each, whatever characters the name of a file has."""
    for line in lines:
        shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in line)
        console.print(f"left out: {shown}")


def output() -> Console:
    """Standard output; what is not a terminal gets plain lines, each as long as it is."""
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = UNFOLDED
    return console
