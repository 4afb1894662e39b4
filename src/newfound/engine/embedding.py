"""Applies a pretrained encoder to images once, so that discovery can work on their vectors.

Shapes: n images, V views, D features. View 0 is the plain image, view 1 its mirror image, and further views
are random resized crops, the same in every call.
"""

import ctypes
import logging
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import chain

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from newfound.core.encoder import Encoder, Preprocessing
from newfound.core.errors import Hint, UsageError
from newfound.core.seed import generator
from newfound.data.arrays import ArrayImages
from newfound.data.augment.geometry import Crop, Flip, Resized
from newfound.data.augment.op import apply, noise_of
from newfound.data.decode import Pixels, Reading, digest_of, upright_rgb
from newfound.data.images import ImageSet, on_device
from newfound.data.members import is_remote, read_image
from newfound.data.workers import AHEAD, num_workers, read_each, shared
from newfound.engine.device import fastest_precision

log = logging.getLogger(__name__)
BATCH = {"cpu": 8, "cuda": 64}
"""Batch size in images of 224 pixels, counting every view."""
MOST = {"cpu": 32, "cuda": 1024}
"""Batch size limit for smaller images; larger batches would overflow a CPU's caches."""
MALLOC_OPTIONS = {-3: 2**28, -1: 2**29}
"""glibc's M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, raised so that freed memory is kept."""
GIVE_BACK_EVERY = 16
"""Number of batches after which unused memory is given back."""
LAYOUT = torch.channels_last
RANDOM = Resized(0.4, 1.0)
"""The boxes of further views."""
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
Opened = tuple[Image.Image, str, list[int]]
"""An image in RGB, its digest, and the largest value if it is grey with more than 8 bits."""


@dataclass(frozen=True)
class Embedded:
    """The vectors of some files."""

    rows: list[int]
    """Their positions in the list of files."""
    vectors: Tensor
    """(n, V, D) float16 in memory."""
    digests: list[str]
    """Digests of the files' contents."""
    failed: list[str]
    """The files of the same batch that could not be read, each with the reason."""


class Embedder:
    """Applies a pretrained encoder, in evaluation mode, to image sets or files.

    The encoder is changed for inference: it must not be trained afterwards.
    """

    def __init__(
        self, encoder: Encoder, device: torch.device, precision: torch.dtype | None = None, views: int = 1
    ) -> None:
        if encoder.preprocessing is None:
            raise UsageError("Only a pretrained encoder can embed images.", Hint.ENCODERS)
        self._freed = FreedMemory(device)
        self.encoder = encoder.eval()
        encoder.fold()
        encoder.to(device, memory_format=LAYOUT)  # type: ignore[call-overload]
        self.look, self.device, self.views = encoder.preprocessing, device, views
        self.precision = precision or fastest_precision(device)
        self._mean, self._std = (
            torch.tensor(each, device=device)[:, None, None] for each in (self.look.mean, self.look.std)
        )
        pixels = self.look.size**2 * views
        self.batch = max(1, min(BATCH[device.type] * 224**2 // pixels, MOST[device.type]))

    def files(
        self,
        paths: Sequence[str],
        strict: bool = False,
        contents: Sequence[bytes] | None = None,
        reading: Reading | None = None,
    ) -> Iterator[Embedded]:
        """Embed files batch by batch, in order, while the next ones are decoded on all cores.

        Images are resized and cropped as the encoder's preprocessing says. Logs progress. With `strict`, the
        first file that cannot be read is an error. Pass `contents` if the files have already been read, and
        the progress of several calls as `reading`.
        """
        side = self.look.shorter or self.look.size

        def opened(row: int) -> Opened:
            return _open(contents[row] if contents else read_image(paths[row]), side)

        remote, reading = not contents and is_remote(paths), reading or Reading(len(paths), "Embedding")
        return self._cropped(paths, opened, strict, reading, remote)

    def _cropped(
        self,
        names: Sequence[str],
        opened: Callable[[int], Opened],
        strict: bool,
        reading: Reading,
        remote: bool = False,
    ) -> Iterator[Embedded]:
        """Crop images on all cores and embed the crops, a batch at a time, in order."""
        look, views, batch = self.look, self.views, self.batch
        pixels = shared(*self._room(len(names)))
        places = len(pixels)

        def read(row: int) -> tuple[str, list[int]]:
            image, digest, peaks = opened(row)
            np.stack(_crops(image, look, views, digest), out=pixels[row % places])
            return digest, peaks

        for number, part in enumerate(read_each(names, read, strict, batch, remote)):
            if number % GIVE_BACK_EVERY == 0:
                self._freed.give_back()
            reading.peaks += chain(*(peaks for _, peaks in part.results))
            reading.count(len(part.rows))
            first, whole = part.rows[0] % places, len(part.kept) == len(part.rows)
            taken = slice(first, first + len(part.kept)) if whole else [row % places for row in part.kept]
            crops = on_device(torch.from_numpy(pixels[taken]), self.device).movedim(-1, 2)
            digests = [digest for digest, _ in part.results]
            yield Embedded(part.kept, self._encode(crops), digests, part.failed)
        for warning in reading.warnings:
            log.warning(warning)
        reading.peaks.clear()

    def images(self, images: ImageSet) -> Iterator[Tensor]:
        """Embed loaded images batch by batch: (n, V, D) float16 in memory, with none left out.

        Images passed in Python are cropped like files. Others are already square, so they are resized to the
        encoder's side as a whole, on the device and with antialiasing.
        """
        reading = Reading(len(images), "Embedding")
        if isinstance(images, ArrayImages):
            cropped = self._cropped(
                images.names, lambda row: (*images.picture(row), []), strict=True, reading=reading
            )
            for part in cropped:
                yield part.vectors
            return
        side = self.look.size
        further = (Crop(side, RANDOM), Flip())
        random = generator(torch.device("cpu"), 0, "views")
        noise = torch.rand(len(images), max(self.views - 2, 0), noise_of(further), generator=random)
        batches = torch.split(torch.arange(len(images)), self.batch)
        for rows, pixels in zip(batches, images.to(self.device).take_each(batches), strict=True):
            levels = pixels.float()
            plain = F.interpolate(levels, (side, side), mode=self.look.interpolation, antialias=True)
            crops = [plain.round().clamp(0, 255)]
            crops += [apply(further, levels, u) for u in noise[rows].to(self.device).unbind(1)]
            yield self._encode(torch.stack(crops, 1))
            reading.count(len(rows))

    def _room(self, number: int) -> tuple[int, ...]:
        """The shape of the crops that are in memory at once while `number` files are decoded."""
        places = (AHEAD * num_workers(number, self.batch) + 1) * self.batch
        return places, max(self.views - 1, 1), self.look.size, self.look.size, 3  # view 1 mirrors view 0

    def memory(self, number: int) -> int:
        """The bytes of memory that decoding `number` files takes at once."""
        return math.prod(self._room(number))

    def _encode(self, crops: Tensor) -> Tensor:
        """Levels in 0..255 (n, C, 3, S, S) → (n, V, D)."""
        if not len(crops):  # not every network takes an empty batch
            return torch.empty(0, self.views, self.encoder.dim, dtype=torch.float16)
        with (
            torch.inference_mode(),
            torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32),
        ):
            if self.views > 1:
                crops = torch.cat([crops[:, :1], crops[:, :1].flip(-1), crops[:, 1:]], 1)
            images = (crops.flatten(0, 1).float() / 255 - self._mean) / self._std
            vectors: Tensor = self.encoder(images.contiguous(memory_format=LAYOUT))
        # A copy made outside inference mode can be trained on.
        return vectors.to("cpu", torch.float16, copy=True).view(len(crops), self.views, -1)


def _open(content: bytes, side: int) -> Opened:
    """The image in a file's content; it may be decoded smaller if only `side` pixels are needed."""
    peaks: list[int] = []
    with Image.open(BytesIO(content)) as image:
        return upright_rgb(image, side, peaks.append), digest_of(content), peaks


def _crops(image: Image.Image, look: Preprocessing, views: int, seed: str) -> list[Pixels]:
    """The centre crop, then random ones drawn with `seed`, half of them mirrored, each (S, S, 3)."""
    side, (width, height) = (look.size, look.size), image.size
    if look.shorter is None:
        boxes = [(0.0, 0.0, float(width), float(height))]
    else:
        # The centre of the image as it would be resized; Pillow looks at pixels outside the box as well.
        scaled = [int(look.shorter * each / min(width, height)) for each in image.size]
        left, top = ((each - look.size) // 2 for each in scaled)
        x, y = width / scaled[0], height / scaled[1]
        boxes = [(left * x, top * y, (left + look.size) * x, (top + look.size) * y)]
    mirrored = [False]
    if views > 2:
        random = torch.Generator().manual_seed(int(seed[:15], 16))
        u = torch.rand(views - 2, RANDOM.noise + 1, generator=random)
        drawn = RANDOM.draw(u[:, 1:], height, width, look.size)
        drawn[:, 2:] += drawn[:, :2]
        boxes += [(x0, y0, x1, y1) for x0, y0, x1, y1 in drawn.tolist()]
        mirrored += (u[:, 0] < 0.5).tolist()
    cut = [np.asarray(image.resize(side, FILTERS[look.interpolation], box)) for box in boxes]
    return [crop[:, ::-1] if flip else crop for crop, flip in zip(cut, mirrored, strict=True)]


class FreedMemory:
    """Keeps what one layer frees for the next, on a CPU, where new pages would take a third of the time.

    The gaps between blocks in use add up, so they have to be given back now and then.
    """

    def __init__(self, device: torch.device) -> None:
        self.on_cpu = device.type == "cpu"
        if self.on_cpu and (libc := _glibc()):
            for option, size in MALLOC_OPTIONS.items():
                libc.mallopt(option, size)

    def give_back(self) -> None:
        if self.on_cpu and (libc := _glibc()):
            libc.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    """glibc, or None on other systems; it cannot be pickled, so no object holds it."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    return libc if hasattr(libc, "mallopt") else None
