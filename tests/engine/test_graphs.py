"""Two graphs, played on a CPU by what they would have recorded: work on tensors that stay in place."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch

from newfound.core.records import Batch
from newfound.data.images import Dataset
from newfound.data.loader import Draw
from newfound.engine import graphs
from tests.engine.test_step import draws, stepping


class Stream:
    """Notes what it waits for."""

    device = torch.device("cpu")

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def wait_stream(self, other: "Stream") -> None:
        self.log.append(f"{self.name} waits for {other.name}")


class Graph:
    """Does its work when it is played; what that returns goes where it was the first time."""

    def __init__(self, work: Callable[[], Batch | None], out: Batch | None, log: list[str]) -> None:
        self.work, self.out, self.log = work, out, log

    def replay(self) -> None:
        fresh = self.work()
        if fresh is None or self.out is None:
            self.log.append("trains")
            return
        self.log.append("makes")
        for place, value in zip(graphs._tensors(self.out), graphs._tensors(fresh), strict=True):
            place.copy_(value)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A CPU that passes for a GPU; recording a training does not train."""
    log: list[str] = []
    main, beside = Stream("main", log), Stream("beside", log)

    def recorded(work: Callable[[], Any], stream: Stream | None = None) -> tuple[Graph, Any]:
        out = work() if stream else None
        return Graph(work, out, log), out

    def on(stream: Stream) -> AbstractContextManager[None]:
        assert stream is beside
        return nullcontext()

    monkeypatch.setattr(graphs, "recorded", recorded)
    for name, fake in {
        "Stream": lambda device: beside,
        "current_stream": lambda device: main,
        "stream": on,
        "synchronize": lambda device: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    return log


@pytest.mark.parametrize("told", [True, False], ids=["the next draw is known", "it is not"])
def test_it_trains_on_the_draws_it_is_given(digits: Dataset, log: list[str], told: bool) -> None:
    _, step = stepping(digits, 0.1)
    reference, expected = stepping(digits, 0.1)
    step.mode, step._calls = "graph", 10
    some: list[Draw] = [
        replace(draw, pixels=step.loader._pixels((draw.labelled, draw.unlabelled))) for draw in draws(step, 4)
    ]
    for draw, following in zip(some, [*some[1:], None], strict=True):
        step(draw, following if told else None)
        expected(draw)
    for one, other in zip(step.learner.parameters(), reference.parameters(), strict=True):
        assert torch.equal(one, other)
    assert [line for line in log if "waits" not in line] == (
        ["makes", "makes", "trains", "makes", "trains", "makes", "trains", "trains"]
        if told
        else ["makes", "trains"] * 4
    )


def test_neither_stream_overtakes_the_other(digits: Dataset, log: list[str]) -> None:
    """A batch is read when it is made, and the next one made when it has been read."""
    _, step = stepping(digits, 0.1)
    step.mode, step._calls = "graph", 10
    first, second = draws(step, 2)
    step(first, second)
    step(second)
    assert log == [
        *("beside waits for main", "makes", "main waits for beside"),
        *("beside waits for main", "makes", "trains", "main waits for beside", "trains"),
    ]
