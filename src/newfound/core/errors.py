"""The few errors a user meets, each one sentence: what, must be, got, remedy."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class NewfoundError(Exception):
    """Something the user can mend; the command line prints it and exits with `exit_code`."""

    exit_code = 1


class UsageError(NewfoundError, ValueError):
    """The call itself is wrong: a name, a key, a value, a combination."""

    exit_code = 2


class DataError(NewfoundError, ValueError):
    """The images or labels are not what the call needs."""


class CheckpointError(NewfoundError):
    """A checkpoint is missing, damaged or of another shape."""


class RunError(NewfoundError):
    """A run cannot go on: the loss is not finite, the disk or the memory is full."""


class WriteError(RunError):
    """A file cannot be written; the message ends in "repeat the call", since that goes on with a run."""


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on the host or on a GPU; torch says so in words only."""
    words = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(each in str(error).lower() for each in words)


def in_words(error: Exception) -> str:
    """What an error says; of a key that is missing, that it is, and of a file what the system says."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"no {error}" if isinstance(error, KeyError) else str(error)


def reason_of(error: BaseException) -> str:
    """The first line of what an error says, and its last where the first one only announces it."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{lines[0]} {lines[-1].strip()}" if lines[0].endswith(":") else lines[0]


def shortened(items: Sequence[str], most: int = 3) -> str:
    """The first of a list and how many more there are."""
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more or "none"


def unknown(kind: str, name: str, known: Iterable[str], remedy: str) -> UsageError:
    """The error for a name that is not in a list, naming the nearest one that is."""
    lower = {each.lower(): each for each in known}
    near = get_close_matches(str(name).lower(), lower, n=1, cutoff=0.6)
    hint = f"; did you mean {lower[near[0]]!r}?" if near else ";"
    return UsageError(f"unknown {kind} {name!r}{hint} {remedy}")
