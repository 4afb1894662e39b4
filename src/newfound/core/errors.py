"""Errors for users: a fact in one sentence, and a hint that each edge puts into its own words."""

import errno
import os
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from enum import Enum

LONGEST = 1000
"""Maximum number of characters in a message."""


class Hint(Enum):
    """A suggested fix. The value is the wording for Python callers; the command line has its own.

    A log record may have one too, as `extra={"hint": ...}`.
    """

    RESUME = "Pass resume=True to continue it."
    NEW_FOLDER = "Choose another folder."
    RESUME_OR_NEW_FOLDER = "Pass resume=True to continue it, or choose another folder."
    RETRY = "Fix that and repeat the call, with resume=True if it has that argument."
    NUM_NOVEL = "Pass num_novel if you know the number."
    DATA_DIR = "Pass the folder of the official files as data_dir."
    SOURCE = "Pass a benchmark, or labelled and unlabelled images."
    RELOCATE = "If the images moved, run `newfound relocate`."
    METHODS = "newfound.method_names() lists the methods."
    SETTINGS = "`newfound methods METHOD` lists the settings."
    ENCODERS = "`newfound encoders` lists the encoders."
    BENCHMARKS = "newfound.benchmark_names() lists the benchmarks."
    HOLD_OUT = "The default is two fifths of the known classes."
    FORMAT = "Choose another file name, or pass the format."
    CLASSES = "Review.names lists the classes."
    PILE = 'If all of them are novel, pass pile="novel".'
    MIXED = 'If it may, pass pile="mixed".'
    MEMORY = "Free some, or use a smaller batch_size or smaller images."
    DEVICES = "Free some, or use fewer devices or processes, or smaller images."
    SAMPLE = "Free some, set a smaller sample, or run on some of the vectors and predict the others."
    EMBED = "Free some, or embed them first and use the embeddings."
    JOIN = "Embed them first and pass the embeddings."
    REMOTE = "Embed its images first and use the embeddings, or copy it to this machine."
    NO_STRICT = "Fix or remove the file, or omit strict."


class NewfoundError(Exception):
    """Something the user can fix; the command line prints it and exits with `exit_code`."""

    exit_code = 1

    def __init__(self, message: str, hint: Hint | None = None) -> None:
        super().__init__(message, hint)
        self.message, self.hint = one_line(message), hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint.value}" if self.hint else self.message


class UsageError(NewfoundError, ValueError):
    """The call is wrong: a name, a key, a value, a combination."""

    exit_code = 2


class DataError(NewfoundError, ValueError):
    """The images or labels are not what the call needs."""


class CheckpointError(NewfoundError):
    """A checkpoint is missing or damaged, or does not fit."""


class RunError(NewfoundError):
    """A run cannot continue: a damaged record, a loss that is not finite, a full disk or memory."""


def printable(text: str) -> str:
    """Escape every character that could control a terminal or hide other characters."""
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)


def one_line(text: str) -> str:
    """The printable text without line breaks; if it is too long, the middle is left out."""
    line = printable(text).replace("\n", "\\n")
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether the host or a GPU ran out of memory; torch only says so in its messages."""
    words = (
        "out of memory",
        "can't allocate memory",
        "cannot allocate memory",
        "not enough memory",
        "storage size",
    )
    return isinstance(error, MemoryError) or any(each in str(error).lower() for each in words)


def reason_of(error: BaseException) -> str:
    """The reason in one line: the operating system's, if there is one, or the first line of the message.

    If that line ends in a colon, the last line is added.
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, FileNotFoundError):  # fsspec's only says which file
        return os.strerror(errno.ENOENT)
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{lines[0]} {lines[-1].strip()}" if lines[0].endswith(":") else lines[0]


def shortened(items: Sequence[str], most: int = 3) -> str:
    """The first `most` items, and how many more there are."""
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more or "none"


def check_known(kind: str, name: str, known: Collection[str], hint: Hint | None = None) -> None:
    """Refuse an unknown name."""
    if name not in known:
        raise unknown(kind, name, known, hint)


def unknown(kind: str, name: str, known: Iterable[str], hint: Hint | None = None) -> UsageError:
    """The error for an unknown name, which suggests the closest known one."""
    lower = {each.lower(): each for each in known}
    near = get_close_matches(str(name).lower(), lower, n=1, cutoff=0.6)
    several = f" Choose from {', '.join(lower.values())}." if lower and not hint else ""
    guess = f" Did you mean {lower[near[0]]!r}?" if near else several
    return UsageError(f"Unknown {kind} {name!r}.{guess}", hint)
