"""Applies a pretrained encoder to images once, so that discovery can work on their vectors.

Shapes: n images, V views, D features. View 0 is the plain image, view 1 its mirror image, and further views
are random resized crops, the same in every call.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.errors import Hint, UsageError
from newfound.core.seed import generator
from newfound.data.arrays import ArrayImages
from newfound.data.augment.geometry import Crop, Flip
from newfound.data.augment.op import apply, noise_of
from newfound.data.crops import RANDOM, Opened, crop_each, open_content
from newfound.data.decode import Reading
from newfound.data.images import ImageSet, on_device
from newfound.data.members import read_image
from newfound.engine.device import FreedMemory, fastest_precision

log = logging.getLogger(__name__)
BATCH = {"cpu": 8, "cuda": 64}
"""Batch size in images of 224 pixels, counting every view."""
MOST = {"cpu": 32, "cuda": 1024}
"""Batch size limit for smaller images; larger batches would overflow a CPU's caches."""
GIVE_BACK_EVERY = 16
"""Number of batches after which unused memory is given back."""
LAYOUT = torch.channels_last


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
        self, paths: Sequence[str], strict: bool = False, contents: Sequence[bytes] | None = None
    ) -> Iterator[Embedded]:
        """Embed files batch by batch, in order, while the next ones are decoded on all cores.

        Images are resized and cropped as the encoder's preprocessing says. Logs progress. With `strict`, the
        first file that cannot be read is an error. Pass `contents` if the files have already been read.
        """
        side = self.look.shorter or self.look.size

        def opened(row: int) -> Opened:
            return open_content(contents[row] if contents else read_image(paths[row]), side)

        return self._cropped(paths, opened, strict)

    def _cropped(
        self, names: Sequence[str], opened: Callable[[int], Opened], strict: bool
    ) -> Iterator[Embedded]:
        reading = Reading(len(names), "Embedding")
        batches = crop_each(names, opened, self.look, self.views, self.batch, strict, reading)
        for number, crops in enumerate(batches):
            if number % GIVE_BACK_EVERY == 0:
                self._freed.give_back()
            vectors = self._encode(on_device(crops.pixels, self.device).movedim(-1, 2))
            yield Embedded(crops.kept, vectors, crops.digests, crops.failed)
        for warning in reading.warnings:
            log.warning(warning)

    def images(self, images: ImageSet) -> Iterator[Tensor]:
        """Embed loaded images batch by batch: (n, V, D) float16 in memory, with none left out.

        Images passed in Python are cropped like files. Others are already square, so they are resized to the
        encoder's side as a whole, on the device and with antialiasing.
        """
        if isinstance(images, ArrayImages):
            for part in self._cropped(images.names, lambda row: (*images.picture(row), []), strict=True):
                yield part.vectors
            return
        reading, side = Reading(len(images), "Embedding"), self.look.size
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
