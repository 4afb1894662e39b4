"""One training step: draw → batch → forward → loss → backward → update, eager, compiled or as a CUDA graph.

All three modes compute the same. Only this file knows which of them runs.
"""

import gc
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn

from newfound.core import dist
from newfound.core.errors import ran_out_of_memory, reason_of
from newfound.core.learner import Learner
from newfound.core.records import Batch, Clock, Losses, Outputs, total
from newfound.core.settings import TrainConfig
from newfound.data.loader import Draw, Loader

log = logging.getLogger(__name__)
Mode = Literal["eager", "compiled", "graph"]
Extra = Callable[[Outputs, Batch], Losses]
"""Additional loss terms, from what the learner's forward returned."""
Prepare = Callable[[Draw], Batch]
Train = Callable[[Batch], None]
HOST, GPU = "random", "random on the GPU"
"""Names of the random states, distinct from those of losses."""
WARM_UP_STEPS = 3
"""Real steps that run before a capture, so that the optimiser's state and all workspaces exist."""
COMPILER: dict[str, str | int | bool | Callable[..., object]] = {
    "realize_reads_threshold": 8,
    "fallback_random": True,
}
"""Recompute what depends on few tensors instead of storing it; draw random numbers as eager torch does."""
HINTS = ("TensorFloat32 tensor cores", r"\s*Online softmax is disabled")
"""Compiler warnings to suppress, by their beginning; float32 products stay exact."""


class Step:
    """Trains on each draw it is called with; `sums` holds the losses added up since the last `reset`."""

    def __init__(
        self,
        learner: Learner,
        loader: Loader,
        optimiser: torch.optim.Optimizer,
        *,
        precision: torch.dtype,
        mode: Mode,
        extra: Extra | None = None,
    ) -> None:
        self.extra = extra
        self.learner, self.loader, self.optimiser, self.mode = learner, loader, optimiser, mode
        self.device = loader.device
        self.precision = precision
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=precision == torch.float16)
        self.clock = Clock(torch.zeros((), device=self.device))
        self.sums: Losses = {}
        self.prepare: Callable[[Draw], Batch] = loader.batch
        self.forward: Callable[[Batch], Losses] = self._forward
        if mode != "eager":
            self.prepare = torch.compile(loader.batch, dynamic=False)
            self.forward = torch.compile(self._forward, dynamic=False, options=COMPILER)
        # Shapes never change, so the fastest convolution found in the first step serves all others.
        torch.backends.cudnn.benchmark = self.device.type == "cuda"
        self._graph: StepGraph | None = None
        self._calls = 0
        self._compile_seconds = 0.0

    def reset(self, epoch: int) -> None:
        """Start the sums of `epoch` at zero."""
        self.clock.epoch.fill_(epoch)
        for value in self.sums.values():
            value.zero_()

    def __call__(self, draw: Draw, following: Draw | None = None) -> None:
        """Train on `draw`; in graph mode the batch of the `following` one is prepared concurrently."""
        self._calls += 1
        if self.mode == "eager":
            self._train(draw)
        elif self._calls == 1:
            self._first(draw)
        elif self.mode == "compiled":
            self._train(draw)
        elif self._calls <= WARM_UP_STEPS:
            with self._side_stream():
                self._train(draw)
        else:
            self._replay(draw, following)

    def _first(self, draw: Draw) -> None:
        """The step that compiles, timed separately; if compilation fails, all steps run eagerly."""
        start = time.perf_counter()
        undo = _snapshot(self.learner, self.device)
        try:
            with self._side_stream(), _without_hints():
                self._train(draw)
        except _compile_errors() as error:
            self._fall_back(error)
            undo()
            self._train(draw)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self._compile_seconds = time.perf_counter() - start

    def _fall_back(self, error: Exception) -> None:
        """Run eagerly from now on; no gradient has been applied yet."""
        reason = reason_of(error)
        log.warning("%s: cannot compile the step (%s); running it eagerly", self.loader.stage, reason)
        self.mode = "eager"
        self.prepare, self.forward = self.loader.batch, self._forward
        self.optimiser.zero_grad(set_to_none=True)

    def _replay(self, draw: Draw, following: Draw | None) -> None:
        if self._graph is None:
            self._capture(draw)
        if self._graph is None:
            self._train(draw)
        else:
            self._graph(draw, following)

    def _capture(self, draw: Draw) -> None:
        try:
            self._graph = StepGraph(self.prepare, self._train_on, draw, self._stream)
        except RuntimeError as error:
            cause = error.__context__ or error  # not the error of ending the failed capture
            if ran_out_of_memory(cause):
                raise cause from None
            self._do_without_graph(cause)

    def _do_without_graph(self, error: BaseException) -> None:
        """Run compiled from now on; nothing was updated, since a capture only records the step."""
        reason = reason_of(error)
        log.warning("%s: cannot capture the step (%s); running it compiled", self.loader.stage, reason)
        self.mode = "compiled"
        self.optimiser.zero_grad(set_to_none=True)

    def take_compile_seconds(self) -> float:
        """Seconds of compilation since the last call."""
        taken, self._compile_seconds = self._compile_seconds, 0.0
        return taken

    def _train(self, draw: Draw) -> None:
        self._train_on(self.prepare(draw))

    def _train_on(self, batch: Batch) -> None:
        losses = self.forward(batch)
        self.backward(losses)
        self.update(losses)

    def backward(self, losses: Losses) -> None:
        """Compute the gradients of the total loss."""
        self.scaler.scale(total(losses)).backward()  # type: ignore[no-untyped-call]
        dist.average(each.grad for each in self.learner.parameters() if each.grad is not None)

    def update(self, losses: Losses) -> None:
        """Apply and clear the gradients, and add the losses to the sums."""
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)
        self.learner.after_step()
        for name, value in losses.items():
            if name not in self.sums:
                self.sums[name] = torch.zeros_like(value, dtype=torch.float32)
            self.sums[name] += value.detach()
        self.sums = {name: self.sums[name] for name in losses}  # a checkpoint does not keep the order

    def _forward(self, batch: Batch) -> Losses:
        with torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32):
            out = self.learner(batch, self.clock)
        losses = self.learner.loss(out, batch, self.clock)
        return losses | self.extra(out, batch) if self.extra else losses

    @cached_property
    def _stream(self) -> torch.cuda.Stream:
        """The stream for warm-up and capture, with priority over concurrent work."""
        return torch.cuda.Stream(self.device, priority=-1)  # type: ignore[no-untyped-call]

    @contextmanager
    def _side_stream(self) -> Iterator[None]:
        """Warm up on a separate stream, as CUDA graphs require."""
        if self.mode != "graph":
            yield
            return
        torch.cuda.synchronize(self.device)
        try:
            with torch.cuda.stream(self._stream):
                yield
        finally:
            torch.cuda.synchronize(self.device)


def _snapshot(learner: Learner, device: torch.device) -> Callable[[], None]:
    """A function that undoes a forward, which changes statistics and memories and may draw random numbers."""
    buffers, random = [(buffer, buffer.clone()) for buffer in learner.buffers()], random_states(device)

    def undo() -> None:
        for buffer, before in buffers:
            buffer.copy_(before)
        set_random_states(random, device)

    return undo


def random_states(device: torch.device) -> dict[str, Tensor]:
    """The states of torch's random number generators, on the host and on a GPU."""
    host = {HOST: torch.get_rng_state()}
    return host | {GPU: torch.cuda.get_rng_state(device)} if device.type == "cuda" else host


def set_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore the states of random numbers; they may come from another device."""
    torch.set_rng_state(states[HOST])
    if device.type == "cuda" and GPU in states:
        torch.cuda.set_rng_state(states[GPU], device)


@contextmanager
def _without_hints() -> Iterator[None]:
    with warnings.catch_warnings():
        for beginning in HINTS:
            warnings.filterwarnings("ignore", beginning, UserWarning)
        yield


def _compile_errors() -> tuple[type[Exception], ...]:
    """The exceptions of a failed compilation; their modules are slow to import."""
    from torch._dynamo.exc import TorchDynamoException
    from torch._inductor.exc import InductorError

    return TorchDynamoException, InductorError


def learner_optimiser(learner: Learner, train: TrainConfig) -> torch.optim.Optimizer:
    """The optimiser of all parameters; on a GPU its learning rate is a tensor, which captured steps can read.

    Frozen parameters never get a gradient, so they stay as they are.
    """
    parameters = list(learner.parameters())
    if not parameters:  # as centroids on vectors, which train nothing
        parameters = [nn.Parameter(torch.zeros(()))]
    on_gpu = parameters[0].is_cuda
    lr: float | Tensor = torch.zeros((), device=parameters[0].device) if on_gpu else 0.0
    if train.optimiser == "adam":
        return torch.optim.Adam(
            parameters, lr, weight_decay=train.weight_decay, fused=on_gpu, capturable=on_gpu
        )
    nesterov = train.optimiser == "nesterov"
    return torch.optim.SGD(
        parameters, lr, train.momentum, weight_decay=train.weight_decay, nesterov=nesterov, fused=on_gpu
    )


def set_learning_rate(optimiser: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate, in place if it is a tensor."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr


class StepGraph:
    """A step recorded once and replayed on whatever is copied into its inputs; recording trains nothing.

    Augmentation has many short kernels that leave most of a GPU idle, so it runs concurrently with training.
    It depends only on its draw, so the results are those of running one after the other.
    """

    def __init__(self, prepare: Prepare, train: Train, draw: Draw, stream: torch.cuda.Stream) -> None:
        self._prepare, self._train = prepare, train
        self._draw = Draw(**{name: value.clone() for name, value in draw.tensors().items()})
        self._next = prepare(draw)
        self._made: Draw | None = draw
        like = torch.empty_like
        views, labels, index = self._next.views, self._next.labels, self._next.index
        self._batch = Batch(tuple(map(like, views)), like(labels), like(index))
        # With the training stream's priority, the two could be the same stream and share a workspace.
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
    """Record a graph that repeats `work` on the same tensors."""
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
    """Undo what torch 2.11 leaves behind when a capture fails: the stream, the pool and the random state."""
    torch.cuda.set_stream(before)
    index = stream.device.index
    with suppress(RuntimeError):  # newer versions do so themselves
        torch._C._cuda_endAllocateToPool(index, pool)
    random = torch.cuda.default_generators[index]
    random.graphsafe_set_state(random.clone_state())
