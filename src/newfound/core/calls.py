"""Checks arguments against annotations and turns any error into a NewfoundError, for both edges."""

from collections.abc import Callable, Sequence
from functools import cache, wraps
from inspect import signature
from pathlib import Path
from traceback import extract_tb
from typing import Any, TypeVar, cast

from pydantic import ConfigDict, ValidationError, validate_call

from newfound.core.errors import Hint, NewfoundError, RunError, UsageError, ran_out_of_memory, reason_of
from newfound.core.settings import problem_of

F = TypeVar("F", bound=Callable[..., Any])
PACKAGE = Path(__file__).parents[1]


def public(function: F) -> F:
    """Check a function's arguments against its annotations and turn any error into a NewfoundError."""
    # Built on the first call, since annotations may name classes that are defined later.
    checked = cache(lambda: validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function))

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return checked()(*given, **named)
        except NewfoundError:
            raise
        except Exception as error:
            raise as_ours(error, list(signature(function).parameters)) from error

    return cast(F, call)


def as_ours(error: Exception, names: Sequence[str] = ()) -> NewfoundError:
    """The error as a one-line NewfoundError; `names` are the function's positional arguments."""
    if isinstance(error, NewfoundError):
        return error
    if isinstance(error, ValidationError):
        where, problem = problem_of(error)
        place = where.split(".")[0]
        if place.isdecimal():  # a position, perhaps beyond the function's arguments
            place = names[int(place)] if int(place) < len(names) else ""
        return UsageError(f"{f'Argument {place!r}' if place else 'An argument'} {problem}.")
    if ran_out_of_memory(error):
        return RunError("Out of memory.", Hint.MEMORY)
    if isinstance(error, OSError):
        return RunError(f"{reason_of(error)}{f': {error.filename}' if error.filename else ''}.")
    frames = [frame for frame in extract_tb(error.__traceback__) if PACKAGE in Path(frame.filename).parents]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return RunError(f"Unexpected error, please report it: {type(error).__name__}: {reason_of(error)}{where}.")
