"""A training step as two CUDA graphs: one trains on a batch while the other makes the next one."""

from collections.abc import Callable
from typing import TypeVar

import torch

from newfound.core.records import Batch
from newfound.data.loader import Draw

T = TypeVar("T")
Prepare = Callable[[Draw], Batch]
Train = Callable[[Batch], None]


class Graphs:
    """Recorded once, replayed with what is copied into their inputs; recording trains nothing.

    Augmentation has many short kernels that leave most of a GPU idle, so it runs beside the training. It
    depends on nothing but its draw: the numbers are those of one after the other.
    """

    def __init__(self, prepare: Prepare, train: Train, draw: Draw, device: torch.device) -> None:
        torch.cuda.synchronize(device)
        # Recorded on a stream of its own, for that is whose workspace matrix products will use.
        self._beside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._draw = Draw(**{name: value.clone() for name, value in draw.tensors().items()})
        self._made: Draw | None = None
        self._making, self._next = recorded(lambda: prepare(self._draw), self._beside)
        views, labels, index = self._next.views, self._next.labels, self._next.index
        like = torch.empty_like
        self._batch = Batch(tuple(map(like, views)), like(labels), like(index))
        self._training, _ = recorded(lambda: train(self._batch))

    def __call__(self, draw: Draw, following: Draw | None) -> None:
        """Train on `draw`, and begin with the batch of the draw that will follow it, if it is known."""
        stream = torch.cuda.current_stream(self._beside.device)
        if self._made is not draw:
            self._make(draw, after=stream)
        stream.wait_stream(self._beside)
        for place, fresh in zip(_tensors(self._batch), _tensors(self._next), strict=True):
            place.copy_(fresh)
        if following is not None:
            self._make(following, after=stream)
        self._made = following
        self._training.replay()

    def _make(self, draw: Draw, after: torch.cuda.Stream) -> None:
        self._beside.wait_stream(after)
        with torch.cuda.stream(self._beside):
            for name, fresh in draw.tensors().items():
                getattr(self._draw, name).copy_(fresh)
            self._making.replay()


def recorded(
    work: Callable[[], T], stream: torch.cuda.Stream | None = None
) -> tuple[torch.cuda.CUDAGraph, T]:
    """What does `work` again and again on the same tensors, and what it returns each time."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        out = work()
    return graph, out


def _tensors(batch: Batch) -> tuple[torch.Tensor, ...]:
    return *batch.views, batch.labels, batch.index
