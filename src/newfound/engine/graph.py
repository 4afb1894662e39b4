"""A training step as one CUDA graph, in which the next batch is made while the present one trains."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch

from newfound.core.records import Batch
from newfound.data.loader import Draw

Prepare = Callable[[Draw], Batch]
Train = Callable[[Batch], None]


class StepGraph:
    """Recorded once and replayed with what is copied into its inputs; recording trains nothing.

    Augmentation has many short kernels that leave most of a GPU idle, so it runs beside the training. It
    depends on nothing but its draw: the numbers are those of one after the other.
    """

    def __init__(self, prepare: Prepare, train: Train, draw: Draw, stream: torch.cuda.Stream) -> None:
        self._prepare, self._train = prepare, train
        self._draw = Draw(**{name: value.clone() for name, value in draw.tensors().items()})
        self._next = prepare(draw)
        self._made: Draw | None = draw
        like = torch.empty_like
        views, labels, index = self._next.views, self._next.labels, self._next.index
        self._batch = Batch(tuple(map(like, views)), like(labels), like(index))
        # Another priority than the training stream: otherwise the two could be one and share a workspace.
        self._beside = torch.cuda.Stream(stream.device, priority=0)  # type: ignore[no-untyped-call]
        self._graph = recorded(self._work, stream)

    def __call__(self, draw: Draw, following: Draw | None) -> None:
        """Train on `draw` and prepare the batch of the `following` one, if it is known."""
        made, self._made = self._made, None
        if made is not draw:
            _copy(self._prepare(draw), self._next)
        if following is not None:
            for name, fresh in following.tensors().items():
                getattr(self._draw, name).copy_(fresh)
        self._graph.replay()
        self._made = following

    def _work(self) -> None:
        stream = torch.cuda.current_stream(self._beside.device)
        _copy(self._next, self._batch)
        self._beside.wait_stream(stream)
        with torch.cuda.stream(self._beside):
            _copy(self._prepare(self._draw), self._next)
        self._train(self._batch)
        stream.wait_stream(self._beside)


def _copy(batch: Batch, into: Batch) -> None:
    for fresh, place in zip(_tensors(batch), _tensors(into), strict=True):
        place.copy_(fresh)


def _tensors(batch: Batch) -> tuple[torch.Tensor, ...]:
    return *batch.views, batch.labels, batch.index


def recorded(work: Callable[[], object], stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    """A graph that repeats `work` on the same tensors."""
    torch.cuda.synchronize(stream.device)
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    before = torch.cuda.current_stream(stream.device)
    try:
        with _without_collection(), torch.cuda.graph(graph, pool=pool, stream=stream):
            work()
    except BaseException:
        _leave_capture(before, stream, pool)
        raise
    return graph


@contextmanager
def _without_collection() -> Iterator[None]:
    """Free graphs of earlier stages now: freeing one during a capture would break it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _leave_capture(before: torch.cuda.Stream, stream: torch.cuda.Stream, pool: tuple[int, int]) -> None:
    """Undo what torch 2.11 leaves behind when a capture fails: its stream, its pool, its random numbers."""
    torch.cuda.set_stream(before)
    index = stream.device.index
    with suppress(RuntimeError):  # newer versions have done so themselves
        torch._C._cuda_endAllocateToPool(index, pool)
    random = torch.cuda.default_generators[index]
    random.graphsafe_set_state(random.clone_state())
