"""Recognising exhausted memory, and one line for an error."""

import pytest
import torch

from newfound.core.errors import (
    Hint,
    UsageError,
    one_line,
    ran_out_of_memory,
    reason_of,
    shortened,
    unknown,
)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("unable to mmap 9 bytes: Cannot allocate memory (12)"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"),
    ],
)
def test_memory_ran_out(error: BaseException) -> None:
    assert ran_out_of_memory(error)


@pytest.mark.parametrize("said", ["an illegal memory access", "shared memory object", "memory format option"])
def test_other_errors_may_speak_of_memory(said: str) -> None:
    assert not ran_out_of_memory(RuntimeError(said))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("k is too large\nat pairs.cpp:9", "k is too large"),
        ("it failed:\n\n  why\n", "it failed: why"),
        ("", "ValueError"),
    ],
)
def test_one_line_of_an_error_is_told(said: str, told: str) -> None:
    assert reason_of(ValueError(said)) == told


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("an \x1b[31mred\x07 name", r"an \x1b[31mred\x07 name"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\udcff é 猫", r"\udcff é 猫"),
        ("x" * 10**6, "x" * 500 + " ... " + "x" * 500),
    ],
)
def test_a_message_is_one_line_that_cannot_command_a_terminal(said: str, told: str) -> None:
    assert UsageError(said).message == one_line(said) == told


@pytest.mark.parametrize(
    ("number", "told"),
    [(0, "none"), (1, "0"), (3, "0, 1, 2"), (4, "0, 1, 2 and 1 more"), (16, "0, 1, 2 and 13 more")],
)
def test_long_lists_are_shortened(number: int, told: str) -> None:
    assert shortened([str(each) for each in range(number)]) == told


@pytest.mark.parametrize(("name", "near"), [("IIC", "iic"), ("rs", "RS+"), ("zzz", None)])
def test_the_nearest_name_is_suggested_in_whatever_case(name: str, near: str | None) -> None:
    guess = f" Did you mean {near!r}?" if near else ""
    error = unknown("method", name, ["iic", "RS+"], Hint.METHODS)
    assert error.message == f"Unknown method {name!r}.{guess}"
    assert str(error) == f"{error.message} {Hint.METHODS.value}"
