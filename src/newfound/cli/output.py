"""Where the command line prints."""

from rich.console import Console

UNFOLDED = 1000
"""Columns, where no terminal sets a limit."""


def output() -> Console:
    """Standard output; what is not a terminal gets plain lines, each as long as it is."""
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = UNFOLDED
    return console
