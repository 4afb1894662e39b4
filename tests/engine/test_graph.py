"""A step's graph, played on a CPU by what it would have recorded: work on tensors that stay in place."""

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TypeVar

import pytest
import torch

from newfound.data.dataset import Dataset
from newfound.data.loader import Draw
from newfound.engine import step as graph
from newfound.engine.step import Step
from tests.engine.test_step import draws, stepping

A = TypeVar("A")
R = TypeVar("R")


class Stream:
    """Notes what it waits for."""

    device = torch.device("cuda", 0)

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def wait_stream(self, other: "Stream") -> None:
        self.log.append(f"{self.name} waits for {other.name}")


class Graph:
    """Does its work when it is played."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.replay = work


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What streams do, on a CPU that passes for a GPU; recording does nothing."""
    log: list[str] = []
    main, beside = Stream("main", log), Stream("beside", log)

    def on(stream: Stream) -> AbstractContextManager[None]:
        assert stream is beside
        return nullcontext()

    monkeypatch.setattr(graph, "recorded", lambda work, stream: Graph(work))
    for name, fake in {
        "Stream": lambda device, priority: beside if priority == 0 else main,
        "current_stream": lambda device: main,
        "stream": on,
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    return log


def noted(log: list[str], word: str, function: Callable[[A], R]) -> Callable[[A], R]:
    """The same function, whose calls are written down."""

    def call(argument: A) -> R:
        log.append(word)
        return function(argument)

    return call


def captured(step: Step) -> list[Draw]:
    """Some draws for a step that is past its warm-up, with images that were fetched."""
    step.mode, step._calls = "graph", 10
    return [
        replace(draw, pixels=step.loader._pixels((draw.labelled, draw.unlabelled))) for draw in draws(step, 4)
    ]


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("told", [True, False], ids=["the next draw is known", "it is not"])
def test_it_trains_on_the_draws_it_is_given(digits: Dataset, told: bool) -> None:
    _, step = stepping(digits, 0.1)
    reference, expected = stepping(digits, 0.1)
    some, made = captured(step), list[str]()
    step.prepare = noted(made, "makes", step.prepare)
    for draw, following in zip(some, [*some[1:], None], strict=True):
        step(draw, following if told else None)
        expected(draw)
    for one, other in zip(step.learner.parameters(), reference.parameters(), strict=True):
        assert torch.equal(one, other)
    # Once for the capture, once in each replay, and where the replay before could not know.
    assert len(made) == 1 + 4 + (0 if told else 3)


def test_another_draw_than_the_one_announced(digits: Dataset, log: list[str]) -> None:
    _, step = stepping(digits, 0.1)
    reference, expected = stepping(digits, 0.1)
    first, second, third, _ = captured(step)
    for draw, following in ((first, second), (third, second), (second, None)):
        step(draw, following)
        expected(draw)
    for one, other in zip(step.learner.parameters(), reference.parameters(), strict=True):
        assert torch.equal(one, other)


def test_neither_stream_overtakes_the_other(digits: Dataset, log: list[str]) -> None:
    """A batch is made anew when it has been copied, and the step ends when the next is made."""
    _, step = stepping(digits, 0.1)
    first, second, *_ = captured(step)
    step.prepare = noted(log, "makes", step.prepare)
    vars(step)["_train_on"] = noted(log, "trains", step._train_on)
    step(first, second)
    step(second)
    assert log == ["makes", *("beside waits for main", "makes", "trains", "main waits for beside") * 2]


def test_a_capture_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch 2.11 itself would leave the stream, the pool and the random numbers as in a capture."""
    left: list[object] = []

    class Random:
        def clone_state(self) -> str:
            return "fresh"

        def graphsafe_set_state(self, state: str) -> None:
            left.append(state)

    @contextmanager
    def capture(*_: object, **__: object):  # type: ignore[no-untyped-def]
        assert not gc.isenabled()
        yield

    def end(index: int, pool: object) -> None:
        left.append((index, pool))
        raise RuntimeError("it was ended before")

    def fail() -> None:
        raise RuntimeError("not permitted")

    before = Stream("before", [])
    for name, fake in {
        "synchronize": lambda device: None,
        "CUDAGraph": lambda: None,
        "graph_pool_handle": lambda: (0, 1),
        "current_stream": lambda device: before,
        "graph": capture,
        "set_stream": left.append,
        "default_generators": [Random()],
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", end, raising=False)
    with pytest.raises(RuntimeError, match="not permitted"):
        graph.recorded(fail, Stream("main", []))  # type: ignore[arg-type]
    assert left == [before, (0, (0, 1)), "fresh"]
    assert gc.isenabled()
