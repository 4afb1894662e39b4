"""Training in several processes; the only code that names `torch.distributed`.

The first process runs the command. The others, started by torchrun, Slurm or the setting `devices`, follow
its orders (engine/trainer.py) and hold the same data and weights. Within `sharing`, each process encodes its
share of a batch, and `gather` returns the features of the whole batch to all of them. Heads, memories and
losses are then computed in every process on the whole batch, so they need not know about the others.

The gradient of `gather` is summed over the processes, each of which computes the whole loss, so it is `world`
times too large. `average` makes the gradient of every parameter exact, whether the parameter was applied to a
share or to the whole batch. With one process, every function here is the identity.
"""

import math
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from io import BytesIO
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from newfound.core.errors import RunError
from newfound.core.files import cores

T = TypeVar("T")
WAIT = timedelta(days=30)
"""How long a process waits for orders: the first one may be loading, evaluating or clustering."""
_orders: dist.ProcessGroup | None = None
_local = 1
"""Processes on this machine."""
_cores: int | None = None
"""The cores that Slurm gave to them; it may have bound each to some of these."""
_expected = 1
"""Processes that will be started on this machine."""
_batch: tuple[int, ...] = ()
"""Numbers of labelled and unlabelled rows in the batch that the processes share; empty outside `sharing`."""
_broken = False
"""Whether an error interrupted shared work, so that some processes may still be waiting in a step."""


class ProcessLostError(RunError):
    """Another process has ended."""


def world() -> int:
    """The number of processes."""
    return dist.get_world_size() if _orders else 1


def rank() -> int:
    """The number of this process; the first is 0."""
    return dist.get_rank() if _orders else 0


def own_cores(usable: int) -> int:
    """How many of the cores that this process may use are its own; at least one."""
    return max(min(usable, (_cores or usable) // _local), 1)


def on_this_machine() -> int:
    """How many processes share this machine's memory, or will; each has its own copy of images in memory."""
    return _local if world() > 1 else _expected


@contextmanager
def expecting(number: int) -> Iterator[None]:
    """Within the block, plan for `number` processes on this machine, unless a launcher started several."""
    global _expected
    before, _expected = _expected, number
    try:
        yield
    finally:
        _expected = before


@contextmanager
def sharing(labelled: int, unlabelled: int) -> Iterator[None]:
    """Within the block, all processes share batches with these numbers of rows."""
    global _batch
    _batch = (labelled, unlabelled) if world() > 1 else ()
    try:
        with _noticing_lost_processes():
            yield
    finally:
        _batch = ()


@contextmanager
def _noticing_lost_processes() -> Iterator[None]:
    """Turn a lost connection to another process into a one-line error."""
    global _broken
    try:
        yield
    except BaseException as error:
        _broken = True
        if isinstance(error, RuntimeError) and re.search("onnection (closed|reset)", str(error)):
            raise ProcessLostError(
                "Another process of this run has ended; see its output for the reason."
            ) from None
        raise


def is_sharing() -> bool:
    return bool(_batch)


def _own(rows: int) -> range:
    """This process's share of `rows`."""
    return range(rows * rank() // world(), rows * (rank() + 1) // world()) if _batch else range(rows)


def count(rows: int) -> int:
    """How many of `rows` belong to this process."""
    return len(_own(rows))


def _places(rows: int | None, device: torch.device) -> Tensor:
    """Positions of this process's share of `rows`; by default, of a batch's labelled and unlabelled rows."""
    kinds = _batch if rows is None else (rows,)
    first = [sum(kinds[:number]) for number in range(len(kinds))]
    own = [_own(kind) for kind in kinds]
    places = [torch.arange(f + o.start, f + o.stop, device=device) for f, o in zip(first, own, strict=True)]
    return torch.cat(places)


def share(whole: Tensor, dim: int = 0, rows: int | None = None) -> Tensor:
    """This process's share of a tensor with `rows` rows along `dim`; by default, those of the batch."""
    return whole.index_select(dim, _places(rows, whole.device)) if _batch else whole


def gather(part: Tensor, dim: int = 0, rows: int | None = None) -> Tensor:
    """Join the shares of all processes: the inverse of `share`, with a gradient."""
    if not _batch:
        return part
    shape = list(part.shape)
    shape[dim] = sum(_batch) if rows is None else rows
    # Adding zeros is exact, and lets shares differ in size.
    return _Sum.apply(part.new_zeros(shape).index_copy(dim, _places(rows, part.device), part))  # type: ignore[no-any-return, no-untyped-call]


class _Sum(torch.autograd.Function):
    """The sum over the processes; its gradient is summed over them too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = x.contiguous().clone()
        dist.all_reduce(out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _Sum.forward(ctx, gradient)


def average(tensors: Iterable[Tensor]) -> None:
    """Replace tensors with their means over the processes, in one message."""
    if not _batch or not (found := list(tensors)):
        return
    flat = torch.cat([each.flatten() for each in found])
    dist.all_reduce(flat)
    means = torch.split(flat / world(), [each.numel() for each in found])
    for each, mean in zip(found, means, strict=True):
        each.copy_(mean.view(each.shape))


def broadcast(tensors: Iterable[Tensor]) -> None:
    """Replace tensors with those of the first process."""
    for each in tensors if _batch else ():
        whole = each.detach().contiguous()
        dist.broadcast(whole, 0)
        each.copy_(whole)


def send(order: object) -> None:
    """Send an order from the first process to all others."""
    if world() == 1:
        return
    buffer = BytesIO()
    torch.save(order, buffer)
    message = torch.frombuffer(buffer.getbuffer(), dtype=torch.uint8)
    with _noticing_lost_processes():
        dist.broadcast(torch.tensor([len(message)]), 0, _orders)
        dist.broadcast(message, 0, _orders)


def receive() -> Any:
    """Wait for an order, whose tensors are put on this process's device; None if there are no more."""
    length = torch.zeros(1, dtype=torch.int64)
    try:
        dist.broadcast(length, 0, _orders)
        message = torch.empty(int(length), dtype=torch.uint8)
        dist.broadcast(message, 0, _orders)
    except RuntimeError:  # the first process was killed
        return None
    return torch.load(BytesIO(message.numpy().data), map_location=_to_own_device, weights_only=False)


def agreed(value: T) -> T:
    """The first process's value, in every process."""
    if rank() == 0:
        send(value)
        return value
    if (found := receive()) is None:
        raise ProcessLostError("The first process has ended.")
    return found  # type: ignore[no-any-return]


def _to_own_device(storage: Any, where: str) -> Any:
    return storage if where == "cpu" else storage.cuda()


def launched() -> bool:
    """Whether torchrun, or Slurm's srun, has started several processes."""
    environment = os.environ
    if "RANK" not in environment and int(environment.get("SLURM_STEP_NUM_TASKS", 1)) > 1:
        name, number = re.findall(r"^([^,\[]+)(?:\[(\w+))?", environment["SLURM_STEP_NODELIST"])[0]
        given = {
            "RANK": environment["SLURM_PROCID"],
            "LOCAL_RANK": environment["SLURM_LOCALID"],
            "WORLD_SIZE": environment["SLURM_STEP_NUM_TASKS"],
            "MASTER_ADDR": name + number,
            "MASTER_PORT": str(20000 + int(environment["SLURM_JOB_ID"]) % 20000),
        }
        environment.update(given | {key: environment[key] for key in given if key in environment})
    return int(environment.get("WORLD_SIZE", 1)) > 1 and "RANK" in environment


def join(environment: Mapping[str, str] = os.environ, **where: Any) -> None:
    """Join the process group that the environment describes; each process takes its own GPU.

    With fewer GPUs than processes on this machine, some share one, which NCCL refuses and gloo allows.
    """
    global _orders, _broken, _local, _cores
    local, gpus = int(environment["LOCAL_RANK"]), torch.cuda.device_count()
    if gpus:
        torch.cuda.set_device(local % gpus)
    together = int(environment.get("LOCAL_WORLD_SIZE", 1))  # Slurm may show each process only its own GPU
    dist.init_process_group("cpu:gloo,cuda:nccl" if together <= gpus else "gloo", **where)
    _local, _cores = _sharers(environment)
    _orders, _broken = dist.new_group(backend="gloo", timeout=WAIT), False


def _sharers(environment: Mapping[str, str]) -> tuple[int, int | None]:
    """How many processes are on this machine, and the cores that Slurm gave to them."""
    if "LOCAL_WORLD_SIZE" in environment or "SLURM_STEP_NUM_NODES" not in environment:
        return int(environment.get("LOCAL_WORLD_SIZE", 1)), None
    tasks, nodes = (int(environment[f"SLURM_STEP_NUM_{each}"]) for each in ("TASKS", "NODES"))
    cores = environment.get("SLURM_CPUS_ON_NODE")
    return math.ceil(tasks / nodes), int(cores) if cores else None


def leave() -> None:
    """Leave the process group; the first process dismisses the others."""
    global _orders, _local, _cores
    if _orders is None:
        return
    if rank() == 0 and not _broken:
        with suppress(ProcessLostError):
            send(None)
    _orders, _local, _cores = None, 1, None
    dist.destroy_process_group()


@contextmanager
def processes(number: int) -> Iterator[None]:
    """Run the block with `number` processes on this machine, unless a launcher has started several."""
    if number == 1 or world() > 1:
        yield
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {"OMP_NUM_THREADS": str(max(cores() // number, 1)), **os.environ}
    environment |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(number))
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    first, *rest = (environment | dict.fromkeys(("RANK", "LOCAL_RANK"), str(each)) for each in range(number))
    others = [subprocess.Popen([sys.executable, "-m", "newfound"], env=each) for each in rest]
    met = False
    try:
        join(first, init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=number)
        met = True
        yield
    finally:
        leave()
        for other in others:
            if _broken or not met:
                other.kill()  # it ignores SIGTERM
            other.wait()
