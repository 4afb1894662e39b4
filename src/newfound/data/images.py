"""Sets of uint8 images of one size, in memory or decoded when they are needed; or of vectors."""

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from typing import Self, TypeVar, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newfound.core.errors import DataError, Hint
from newfound.data.decode import Pixels, Size, decode, digests_of
from newfound.data.members import is_there, size_of
from newfound.data.workers import AHEAD, FILES, num_workers, read_each, shared

T = TypeVar("T")
R = TypeVar("R")
Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
PREFETCHED = 2
"""How many items `prefetch` works ahead."""


class ImageSet(ABC):
    """n images of one size, by row."""

    size: Size
    names: Sequence[str]
    device: torch.device
    """Where `take` puts images."""
    resident: bool
    """Whether images are stored on the device they are taken on."""
    _fingerprint: str | None = None

    def __len__(self) -> int:
        return len(self.names)

    def take(self, index: Tensor) -> Tensor:
        """Rows (n,) int64 → (n, 3, H, W) uint8 on the set's device."""
        return on_device(self.fetch(index), self.device)

    def take_each(self, indices: Iterable[Tensor]) -> Iterator[Tensor]:
        """`take` for each index, prefetching unless the images are resident."""
        if self.resident:
            return map(self.take, indices)
        host = (index.cpu() for index in indices)
        return (on_device(pixels, self.device) for pixels in prefetch(self.fetch, host))

    @abstractmethod
    def fetch(self, index: Tensor) -> Tensor:
        """`take`, but where the images are stored: host rows of a set that is not resident need no device."""

    def to(self, device: torch.device, move: bool = True) -> "ImageSet":
        """The same images, taken on `device`; stored there too if they fit and `move` is true."""
        placed = self._place(device, move)
        placed._fingerprint = self._fingerprint
        return placed

    def fingerprint(self) -> str:
        """A digest of the images, computed once and kept when they move to another device."""
        if self._fingerprint is None:
            self._fingerprint = self._digest()
        return self._fingerprint

    def contents(self) -> list[str]:
        """(n,) the digest of each image's file; none if they do not come from files that can be read."""
        digests = digests_of(self.names, strict=False)[0] if all(map(is_there, self.names)) else []
        return digests if all(digests) else []

    @abstractmethod
    def select(self, rows: Tensor) -> "ImageSet":
        """A set of the images in `rows` (n,), which keeps nothing of the others."""

    @abstractmethod
    def _place(self, device: torch.device, move: bool) -> "ImageSet": ...

    @abstractmethod
    def _digest(self) -> str: ...


def on_device(pixels: Tensor, device: torch.device) -> Tensor:
    """The pixels on `device`; a copy from the host to a GPU does not wait for the GPU's queue."""
    if device.type == "cuda" and not pixels.is_cuda:
        return pixels.pin_memory().to(device, non_blocking=True)
    return pixels.to(device)


class ResidentImages(ImageSet):
    """Images in memory: on the device if they fit there, otherwise on the host and copied when taken."""

    def __init__(self, pixels: Tensor, names: Sequence[str], device: torch.device | None = None) -> None:
        self.pixels, self.names = pixels, names
        self.size = (pixels.shape[-2], pixels.shape[-1])
        self.device = device or pixels.device
        # Compare types: "cuda" and "cuda:0" are two names of one device.
        self.resident = pixels.device.type == self.device.type

    def fetch(self, index: Tensor) -> Tensor:
        return self.pixels.index_select(0, index.to(self.pixels.device))

    def select(self, rows: Tensor) -> Self:
        return type(self)(self.fetch(rows), _at(self.names, rows), self.device)

    def _place(self, device: torch.device, move: bool) -> Self:
        pixels = self.pixels.to(device) if move and _fits(self.pixels.nbytes, device) else self.pixels
        return type(self)(pixels, self.names, device)

    def _digest(self) -> str:
        digest = blake2b(str(tuple(self.pixels.shape)).encode(), digest_size=16)
        digest.update(self.pixels.cpu().contiguous().view(-1).numpy().data)
        return digest.hexdigest()


class Paths(Sequence[str]):
    """Many paths in one block of memory: workers share it, but would copy the objects of a list."""

    def __init__(self, text: Bytes, starts: Places, ends: Places) -> None:
        self.text, self.starts, self.ends = text, starts, ends

    @classmethod
    def of(cls, paths: Sequence[str]) -> "Paths":
        if isinstance(paths, Paths):
            return paths
        text, lengths = bytearray(), np.empty(len(paths), np.int64)
        for row, path in enumerate(map(os.fsencode, paths)):
            text += path
            lengths[row] = len(path)
        ends = lengths.cumsum()
        return cls(np.frombuffer(text, np.uint8), ends - lengths, ends)

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> "Paths": ...
    def __getitem__(self, row: int | slice) -> "str | Paths":
        start, end = self.starts[row], self.ends[row]
        if isinstance(row, slice):
            return Paths(self.text, start, end)
        return os.fsdecode(self.text[start:end].tobytes())

    def __add__(self, other: "Paths") -> "Paths":
        first = len(self.text)
        starts, ends = [self.starts, other.starts + first], [self.ends, other.ends + first]
        return Paths(np.concatenate([self.text, other.text]), np.concatenate(starts), np.concatenate(ends))

    def select(self, rows: Places) -> "Paths":
        return Paths(self.text, self.starts[rows], self.ends[rows])


class StreamedImages(ImageSet):
    """Files that are decoded each time they are taken, for sets that are too large for memory."""

    resident = False
    names: Paths

    def __init__(
        self, paths: Sequence[str], size: Size, device: torch.device | None = None, crop: bool = False
    ) -> None:
        """With `crop` images are cropped to their centre, otherwise squeezed into `size`."""
        self.names, self.size, self.crop = Paths.of(paths), size, crop
        self.device = device or torch.device("cpu")
        self._kept, self._is_kept = shared(0, 3, *size), shared(0)

    def keep(self, num_bytes: float) -> None:
        """Decode the first images only once, as many as fit into so much memory.

        Every image is taken once in an epoch, so it is best to replace none of them by another.
        """
        room = int(min(num_bytes / (3 * self.size[0] * self.size[1]), len(self)))
        self._kept, self._is_kept = shared(room, 3, *self.size), shared(room)

    def __reduce__(self) -> tuple[Callable[..., "StreamedImages"], tuple[object, ...]]:
        """For another process, which keeps images of its own."""
        return _with_room, (self.names, self.size, self.device, self.crop, self._kept.nbytes)

    def fetch(self, index: Tensor) -> Tensor:
        return next(self._fetch_each([index]))

    def take_each(self, indices: Iterable[Tensor]) -> Iterator[Tensor]:
        """`take` for each index, ahead of their use; decoded in worker processes if it pays off."""
        return (on_device(pixels, self.device) for pixels in self._fetch_each(indices))

    def _fetch_each(self, indices: Iterable[Tensor]) -> Iterator[Tensor]:
        batches = [index.cpu() for index in indices]
        rows = torch.cat(batches).numpy()
        paths = self.names.select(rows)
        workers = num_workers(len(paths), FILES)
        if not workers:
            yield from prefetch(self._decoded, batches)
            return
        places = (
            AHEAD * workers + max(map(len, batches)) // FILES + 2
        ) * FILES  # none is filled again too soon
        pixels = shared(places, 3, *self.size)

        def read(row: int) -> None:
            pixels[row % places] = self._decode(rows[row])

        parts, ready, end = read_each(paths, read), 0, 0
        for batch in batches:
            start, end = end, end + len(batch)
            while ready < end:
                part = next(parts)
                _check_read(part.failed)
                ready = part.rows[-1] + 1
            yield torch.from_numpy(pixels).index_select(0, torch.arange(start, end) % places)

    def _decode(self, row: int) -> Pixels:
        """(3, H, W)"""
        if row >= len(self._kept):
            return decode(self.names[row], self.size, crop=self.crop).transpose(2, 0, 1)
        kept: Pixels = self._kept[row]
        if not self._is_kept[row]:
            kept[:] = decode(self.names[row], self.size, crop=self.crop).transpose(2, 0, 1)
            self._is_kept[row] = 1
        return kept

    def _decoded(self, index: Tensor) -> Tensor:
        rows = index.numpy()
        pixels = shared(len(rows), 3, *self.size)

        def read(place: int) -> None:
            pixels[place] = self._decode(rows[place])

        for part in read_each(self.names.select(rows), read):
            _check_read(part.failed)
        return torch.from_numpy(pixels)

    def select(self, rows: Tensor) -> "StreamedImages":
        return StreamedImages(self.names.select(rows.cpu().numpy()), self.size, self.device, self.crop)

    def joined(self, other: "StreamedImages") -> "StreamedImages":
        """These images, then the others, which are read alike."""
        return StreamedImages(self.names + other.names, self.size, self.device, self.crop)

    def _place(self, device: torch.device, move: bool) -> "StreamedImages":
        return StreamedImages(self.names, self.size, device, self.crop)

    def _digest(self) -> str:
        digest = blake2b(f"{self.size}{' cropped' if self.crop else ''}".encode(), digest_size=16)
        for path in self.names:  # the folder is left out, because it may move
            digest.update(f"{os.path.basename(path)}\0{size_of(path)}\0".encode())
        return digest.hexdigest()


def _with_room(names: Paths, size: Size, device: torch.device, crop: bool, room: int) -> StreamedImages:
    """Files, of which as many are kept as there is room for."""
    images = StreamedImages(names, size, device, crop)
    images.keep(room)
    return images


def _check_read(failed: Sequence[str]) -> None:
    if failed:
        raise DataError(f"An image changed while it was in use: {failed[0]}.", Hint.RETRY)


def prefetch(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """`map` that computes the next results on another thread while one is in use."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
    pending: deque[Future[R]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > PREFETCHED:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)  # cancel pending work


def _at(names: Sequence[str], rows: Tensor) -> list[str]:
    return [names[row] for row in rows.tolist()]


def _fits(num_bytes: int, device: torch.device) -> bool:
    """Whether images may take this much of the device: half of a GPU's free memory is left for training."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return num_bytes <= free // 2
