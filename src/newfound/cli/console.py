"""Output of the command line: log lines, warnings, files left out, and the wording of hints."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from newfound.core.errors import Hint, NewfoundError, one_line, printable

if TYPE_CHECKING:
    from newfound.data.dataset import Dataset

UNWRAPPED = 1000
"""The width of output that does not go to a terminal: no line is wrapped."""
MOST_LINES = 20
"""At most this many of the files left out are listed."""

RESUMABLE = ("discover", "estimate")
"""The verbs with --resume. Other verbs that train continue without it."""

HINTS: Mapping[Hint, str] = {
    Hint.RESUME: "Finish it first: repeat the command that started it, with --resume.",
    Hint.NEW_FOLDER: "Choose another output path.",
    Hint.RESUME_OR_NEW_FOLDER: "Add --resume to continue it, or choose another --out.",
    Hint.RETRY: "Repeat the command once that is fixed.",
    Hint.NUM_NOVEL: "Use --num-novel if you know the number.",
    Hint.DATA_DIR: "Use --data-dir for the folder of the official files.",
    Hint.SOURCE: "Use --data NAME, or --labelled and --unlabelled.",
    Hint.RELOCATE: "If the images moved, use newfound relocate.",
    Hint.METHODS: "`newfound methods` lists the methods.",
    Hint.SETTINGS: "`newfound methods METHOD` lists the settings.",
    Hint.ENCODERS: "`newfound encoders` lists the encoders.",
    Hint.BENCHMARKS: "`newfound data` lists the benchmarks.",
    Hint.HOLD_OUT: "Leave out --hold-out for the default, two fifths of the known classes.",
    Hint.FORMAT: "Choose another file name, or use --format.",
    Hint.CLASSES: "`newfound classes RUN` lists the classes.",
    Hint.PILE: "If all of them are novel, use --pile novel.",
    Hint.MIXED: "If it may, use --pile mixed.",
    Hint.MEMORY: "Free some, or use a smaller batch_size or --size.",
    Hint.DEVICES: "Free some, or use a smaller devices=, fewer processes, or a smaller --size.",
    Hint.SAMPLE: "Free some, set a smaller sample=, or run on some of the vectors and predict the others.",
    Hint.EMBED: "Free some, or run newfound embed first and use --embeddings.",
    Hint.JOIN: "Run newfound embed first and use --embeddings.",
    Hint.REMOTE: "Run newfound embed on it first and use --embeddings, or copy it to this machine.",
    Hint.NO_STRICT: "Fix or remove the file, or leave out --strict.",
}
"""Hint → its wording."""
RESUMING = {
    Hint.RESUME: "Add --resume to continue it.",
    Hint.NEW_FOLDER: "Choose another --out.",
    Hint.RETRY: "Repeat the command with --resume once that is fixed.",
}
"""Wordings that differ for verbs with --resume."""


class PlainConsole(Console):
    """Escapes control characters, which file and class names may contain."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


@cache
def console() -> Console:
    """Standard output, with plain lines that are not wrapped unless it is a terminal."""
    found = PlainConsole(markup=False, highlight=False, emoji=False)
    if not found.is_terminal:
        found.width = UNWRAPPED
    return found


class ConsoleHandler(logging.Handler):
    """Prints log records: information as it is, warnings as `warning: ...`."""

    label = ""
    """Prefix of every line: which of several runs it is about."""
    renamed = ("", "")
    """A path, and the one to print instead."""

    def emit(self, record: logging.LogRecord) -> None:
        prefix = "warning: " if record.levelno >= logging.WARNING else ""
        hint = getattr(record, "hint", None)
        message = f"{record.getMessage()} {HINTS[hint]}" if hint else record.getMessage()
        console().print(one_line(f"{self.label}{prefix}{message.replace(*self.renamed)}"))


HANDLER = ConsoleHandler()


def log_to_console() -> None:
    """Print the log of all of newfound."""
    logger = logging.getLogger("newfound")
    logger.setLevel(logging.INFO)
    logger.addHandler(HANDLER)  # a second call adds nothing


@contextmanager
def shown_as(path: object, instead: object) -> Iterator[None]:
    """Within the block, print `instead` in place of `path`."""
    HANDLER.renamed = str(path), str(instead)
    try:
        yield
    finally:
        HANDLER.renamed = "", ""


def show_data(data: "Dataset") -> None:
    """Print what was loaded, what looks wrong with it, and what was left out."""
    console().print(data.note)
    show_warnings(data.warnings)
    show_left_out(data.skipped)


def show_warnings(lines: Sequence[str]) -> None:
    for line in lines:
        console().print(f"warning: {line}")


def show_left_out(lines: Sequence[str]) -> None:
    """Print the first files left out, and how many more there are."""
    for line in lines[:MOST_LINES]:
        console().print(f"left out: {one_line(line)}")
    if len(lines) > MOST_LINES:
        console().print(f"left out: {len(lines) - MOST_LINES:,} more")


def worded(error: NewfoundError, verb: str) -> str:
    """The message of an error, with its hint worded for the command line."""
    if error.hint is None:
        return error.message
    hints = {**HINTS, **RESUMING} if verb in RESUMABLE else HINTS
    return f"{error.message} {hints[error.hint]}"
