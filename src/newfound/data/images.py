"""Sets of uint8 images of one size, either in memory or decoded on demand."""

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
from newfound.data.members import is_there, prepare, size_of
from newfound.data.workers import AHEAD, FILES, num_workers, read_each, shared

T = TypeVar("T")
R = TypeVar("R")
Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
PREFETCHED = 2
"""How many items `prefetch` computes in advance."""


class ImageSet(ABC):
    """n images of one size, addressed by row."""

    size: Size
    names: Sequence[str]
    device: torch.device
    """The device on which `take` returns images."""
    resident: bool
    """Whether the images are stored on that device."""
    _fingerprint: str | None = None

    def __len__(self) -> int:
        return len(self.names)

    def take(self, index: Tensor) -> Tensor:
        """Rows (n,) int64 → images (n, 3, H, W) uint8 on the set's device."""
        return on_device(self.fetch(index), self.device)

    def take_each(self, indices: Iterable[Tensor]) -> Iterator[Tensor]:
        """`take` for each index, prefetching unless the images are resident."""
        if self.resident:
            return map(self.take, indices)
        host = (index.cpu() for index in indices)
        return (on_device(pixels, self.device) for pixels in prefetch(self.fetch, host))

    @abstractmethod
    def fetch(self, index: Tensor) -> Tensor:
        """Like `take`, but the images stay on the device they are stored on."""

    def to(self, device: torch.device, move: bool = True) -> "ImageSet":
        """The same images, returned on `device`, and stored there too if they fit and `move` is true."""
        placed = self._place(device, move)
        placed._fingerprint = self._fingerprint
        return placed

    def fingerprint(self) -> str:
        """A digest of the images, computed once and kept when the set moves to another device."""
        if self._fingerprint is None:
            self._fingerprint = self._digest()
        return self._fingerprint

    def fingerprints(self) -> Iterator[str]:
        """The fingerprint, then what it would be if the images were in memory, or in files, instead."""
        yield self.fingerprint()

    def contents(self) -> list[str]:
        """The digest of each image's file (n,); empty unless all images come from readable files."""
        are_files = all("://" in name or is_there(name) for name in self.names)
        digests = digests_of(self.names, strict=False)[0] if are_files else []
        return digests if all(digests) else []

    @abstractmethod
    def select(self, rows: Tensor) -> "ImageSet":
        """A set of the images in `rows` (n,), which holds no memory of the others."""

    @abstractmethod
    def _place(self, device: torch.device, move: bool) -> "ImageSet": ...

    @abstractmethod
    def _digest(self) -> str: ...


def on_device(pixels: Tensor, device: torch.device) -> Tensor:
    """The pixels on `device`; copying from the host to a GPU does not wait for the GPU's queue."""
    if device.type == "cuda" and not pixels.is_cuda:
        return pixels.pin_memory().to(device, non_blocking=True)
    return pixels.to(device)


class ResidentImages(ImageSet):
    """Images in memory: on the device if they fit, otherwise on the host and copied when they are taken."""

    def __init__(self, pixels: Tensor, names: Sequence[str], device: torch.device | None = None) -> None:
        self.pixels, self.names = pixels, names
        self.size = (pixels.shape[-2], pixels.shape[-1])
        self.device = device or pixels.device
        # Compare types: "cuda" and "cuda:0" are two names of one device.
        self.resident = pixels.device.type == self.device.type

    def fetch(self, index: Tensor) -> Tensor:
        return self.pixels.index_select(0, index.to(self.pixels.device))

    def select(self, rows: Tensor) -> Self:
        return type(self)(self.fetch(rows), [self.names[row] for row in rows.tolist()], self.device)

    def _place(self, device: torch.device, move: bool) -> Self:
        pixels = self.pixels.to(device) if move and _fits(self.pixels.nbytes, device) else self.pixels
        return type(self)(pixels, self.names, device)

    def fingerprints(self) -> Iterator[str]:
        yield self.fingerprint()
        if all(map(is_there, self.names)):
            yield StreamedImages(self.names, self.size).fingerprint()

    def _digest(self) -> str:
        return _digest_of_pixels(self.pixels.shape, [self.pixels])


def _digest_of_pixels(shape: Sequence[int], parts: Iterable[Tensor]) -> str:
    """A digest of images (n, 3, H, W) in consecutive parts."""
    digest = blake2b(str(tuple(shape)).encode(), digest_size=16)
    for pixels in parts:
        digest.update(pixels.cpu().contiguous().view(-1).numpy().data)
    return digest.hexdigest()


class Paths(Sequence[str]):
    """Many paths in one block of memory, which worker processes share; they would copy a list of strings."""

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
    """Files that are decoded whenever they are taken, for sets that are too large for memory."""

    resident = False
    names: Paths

    def __init__(
        self,
        paths: Sequence[str],
        size: Size,
        device: torch.device | None = None,
        crop: bool = False,
        checked: bool = True,
    ) -> None:
        """With `crop`, images are cropped to their centre; otherwise they are squashed to `size`.

        Files that are not `checked` may be damaged; they are black then.
        """
        self.names, self.size, self.crop, self.checked = Paths.of(paths), size, crop, checked
        self.device = device or torch.device("cpu")
        self._kept, self._is_kept = shared(0, 3, *size), shared(0)

    def keep(self, num_bytes: float) -> None:
        """Keep as many decoded images, from the first on, as fit into this many bytes.

        None of them is ever evicted: every image is taken once an epoch, so the least recently used one is
        the next to be needed.
        """
        room = int(min(num_bytes / (3 * self.size[0] * self.size[1]), len(self)))
        self._kept, self._is_kept = shared(room, 3, *self.size), shared(room)

    def __reduce__(self) -> tuple[Callable[..., "StreamedImages"], tuple[object, ...]]:
        """Pickled for another process, which decodes and keeps its own images."""
        return _with_room, (self.names, self.size, self.device, self.crop, self.checked, self._kept.nbytes)

    def fetch(self, index: Tensor) -> Tensor:
        return next(self._fetch_each([index]))

    def take_each(self, indices: Iterable[Tensor]) -> Iterator[Tensor]:
        """`take` for each index, in advance, and in worker processes if that pays off."""
        return (on_device(pixels, self.device) for pixels in self._fetch_each(indices))

    def _fetch_each(self, indices: Iterable[Tensor]) -> Iterator[Tensor]:
        batches = [index.cpu() for index in indices]
        rows = torch.cat(batches).numpy()
        paths = self.names.select(rows)
        workers = num_workers(len(paths), FILES)
        if not workers:
            yield from prefetch(self._decoded, batches)
            return
        # Enough places that none is filled again before it has been used.
        places = (AHEAD * workers + max(map(len, batches)) // FILES + 2) * FILES
        pixels = shared(places, 3, *self.size)

        def read(row: int) -> None:
            pixels[row % places] = self._decode(rows[row])

        parts, ready, end = read_each(paths, read), 0, 0
        for batch in batches:
            start, end = end, end + len(batch)
            while ready < end:
                part = next(parts)
                self._check_read(part.failed)
                ready = part.rows[-1] + 1
            # Not index_select: its threads would wait for cores that decode, at every image.
            first = start % places
            around = max(first + len(batch) - places, 0)
            yield torch.from_numpy(np.concatenate([pixels[first : first + len(batch)], pixels[:around]]))

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
            self._check_read(part.failed)
        return torch.from_numpy(pixels)

    def _check_read(self, failed: Sequence[str]) -> None:
        if failed and self.checked:
            raise DataError(f"An image changed while it was in use: {failed[0]}.", Hint.RETRY)

    def select(self, rows: Tensor) -> "StreamedImages":
        return self._with(self.names.select(rows.cpu().numpy()), self.device)

    def joined(self, other: "StreamedImages") -> "StreamedImages":
        """These images followed by the others, which must have the same size and crop."""
        return self._with(self.names + other.names, self.device)

    def _place(self, device: torch.device, move: bool) -> "StreamedImages":
        return self._with(self.names, device)

    def _with(self, names: Paths, device: torch.device) -> "StreamedImages":
        return StreamedImages(names, self.size, device, self.crop, self.checked)

    def fingerprints(self) -> Iterator[str]:
        yield self.fingerprint()
        if self.checked:
            parts = self._fetch_each(torch.split(torch.arange(len(self)), FILES))
            yield _digest_of_pixels((len(self), 3, *self.size), parts)

    def _digest(self) -> str:
        digest = blake2b(f"{self.size}{' cropped' if self.crop else ''}".encode(), digest_size=16)
        for path in self.names:  # without the folder, which may move
            digest.update(f"{os.path.basename(path)}\0{size_of(path)}\0".encode())
        return digest.hexdigest()


def _with_room(
    names: Paths, size: Size, device: torch.device, crop: bool, checked: bool, room: int
) -> StreamedImages:
    """A set that keeps as many decoded images as fit into `room` bytes."""
    prepare(names)
    images = StreamedImages(names, size, device, crop, checked)
    images.keep(room)
    return images


def prefetch(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """`map` that computes the next results on another thread while one of them is in use."""
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


def _fits(num_bytes: int, device: torch.device) -> bool:
    """Whether images may take this much memory; half of what is free on a GPU is left for training."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return num_bytes <= free // 2
