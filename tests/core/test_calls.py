"""Arguments that are checked by their annotations, and errors of any kind in one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from newfound.core.calls import as_ours, public
from newfound.core.errors import NewfoundError, RunError, UsageError
from newfound.core.files import AnyPath
from newfound.core.settings import Positive
from newfound.core.source import Source


@public
def call(path: AnyPath, number: Positive | None = None, *, kind: Literal["a", "b"] = "a") -> object:
    """A function of ours."""
    return {"nothing": "here"}[str(path)] if path == Path("key") else number


@pytest.mark.parametrize("number", [2, np.int64(2), np.float64(2), "2", torch.tensor(2).item()])
def test_a_whole_number_of_any_type(number: int) -> None:
    assert (call("a", number), type(call("a", number))) == (2, int)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (("a", 2.5), {}, "Argument 'number' must be a whole number, got 2.5."),
        (("a", 0), {}, "Argument 'number' must be at least 1, got 0."),
        (("a", 2**63), {}, "Argument 'number' must be at most 2147483647, got 9223372036854775808."),
        ((None,), {}, "Argument 'path' must be a path, got None."),
        *(
            (given, {}, "Argument 'path' must be a path, got ")
            for given in (("",), ("\0x",), ("\udcff",), (3,), (b"a",))
        ),
        (("a",), {"kind": []}, "Argument 'kind' must be 'a' or 'b', got []."),
        ((), {}, "Argument 'path' is missing."),
        (("a",), {"sort": 1}, "Argument 'sort' is unknown, got 1."),
        (("a", 1, "a"), {}, "Argument 'kind' cannot be passed by position, got 'a'."),
        (("a", 1, "a", "b"), {}, "Argument 'kind' cannot be passed by position, got 'a'."),
    ],
)
def test_an_error_names_the_argument(
    arguments: tuple[object], options: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        call(*arguments, **options)  # type: ignore[arg-type]
    assert str(caught.value).startswith(words)


def test_whatever_fails_is_one_line_with_its_cause() -> None:
    with pytest.raises(RunError, match=r"Unexpected error, please report it: KeyError: 'key'") as caught:
        call("key")
    assert isinstance(caught.value.__cause__, KeyError)
    assert call.__doc__ == "A function of ours."


def test_any_number_of_positional_arguments() -> None:
    @public
    def paths(*given: AnyPath) -> int:
        return len(given)

    assert paths("a", "b") == 2
    with pytest.raises(UsageError, match=r"^An argument must be a path, got 3\.$"):
        paths("a", "b", 3)  # type: ignore[arg-type]


def failing(act: Callable[[], object]) -> NewfoundError:
    try:
        act()
    except Exception as error:
        return as_ours(error)
    raise AssertionError


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: Source(size=-3), "Argument 'size' must be at least 1, got -3."),
        (lambda: Path("/nowhere/x").read_text(), "No such file or directory: /nowhere/x."),
        (lambda: bytearray(2**62), "Out of memory. Free some"),
        (lambda: torch.empty(2**31 - 1, 2**31 - 1, 128), "Out of memory. Free some"),
        (lambda: [][1], "Unexpected error, please report it: IndexError: "),
    ],
)
def test_any_error_in_one_line(act: Callable[[], object], words: str) -> None:
    assert str(failing(act)).startswith(words)
