"""What is told while files are read."""

from itertools import chain, repeat

import pytest

from newfound.data.reading import Reading


def test_a_line_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    seconds = map(float, range(100))
    monkeypatch.setattr("newfound.data.reading.monotonic", lambda: next(seconds))
    reading = Reading(12, told.append)
    assert list(reading.over("known")) == list("known")
    assert list(reading.over("unknown")) == list("unknown")  # which are counted on
    assert told == ["reading images 5/12, 7 s left", "reading images 10/12, 2 s left"]


def test_nothing_of_what_is_read_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    seconds = chain(repeat(0.0, 1000), [9.0])
    monkeypatch.setattr("newfound.data.reading.monotonic", lambda: next(seconds))
    assert list(Reading(1000, told.append).over(range(1000))) == list(range(1000))
    assert told == []
