"""How much memory a function needs at its peak, beyond what was there before it."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from newfound.bench.clock import synchronise


def peak_bytes(function: Callable[[], object], device: torch.device) -> int:
    """Bytes of the tensors alive at once while `function` runs, its results included."""
    if device.type == "cuda":
        synchronise(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        function()
        synchronise(device)
        return torch.cuda.max_memory_allocated(device) - before
    alive = _Alive()
    with alive:
        function()
    return alive.peak


class _Alive(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of every storage that an operation makes, until the storage goes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = {_storage(each)._cdata for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)}
        out = operation(*args, **(kwargs or {}))
        for each in tree_leaves(out):
            if isinstance(each, Tensor) and _storage(each)._cdata not in given | self._known:
                self._add(_storage(each))
        return out

    def _add(self, storage: torch.UntypedStorage) -> None:
        self._known.add(storage._cdata)
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._remove, storage._cdata, storage.nbytes())

    def _remove(self, storage: int, size: int) -> None:
        self._known.discard(storage)
        self.now -= size


def _storage(tensor: Tensor) -> torch.UntypedStorage:
    return tensor.untyped_storage()
