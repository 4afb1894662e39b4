"""Embed the images of runs with a frozen encoder; the vectors are kept in a cache that runs share.

Shapes: n images, V views, D features.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load, save
from torch import Tensor

from newfound import data
from newfound.core.encoder import Encoder
from newfound.core.errors import Hint, RunError
from newfound.core.files import UNSEALED, read_tensors, reading, write_tensors
from newfound.core.source import EncoderVersion, Source
from newfound.data.dataset import Dataset
from newfound.data.decode import check_any_read, digest_of, digests_of
from newfound.data.images import ImageSet
from newfound.data.members import is_there
from newfound.data.vectors import EmbeddedImages
from newfound.engine.device import resolve_device
from newfound.engine.embedding import Embedder
from newfound.nn.encoders import build_encoder
from newfound.run.events import Stopped, never
from newfound.run.parts import COPIES, MANY, check_needs
from newfound.run.pile import packed, unpacked

log = logging.getLogger(__name__)
PAUSE = 30.0
"""Seconds between two writes to the cache."""
CHUNK = 1000
"""Loaded images that are hashed together."""
LARGE = 100_000
"""The memory for the vectors of so many images is checked before their files are read."""
SOME = 4
"""Batches that are embedded to predict how long embedding takes; the first is not timed."""
Part = tuple[list[str], Tensor]
"""Digests of images (m,) and their vectors (m, V, D)."""


def version_of(name: str) -> tuple[Encoder, EncoderVersion]:
    """Build a pretrained encoder, and the record of its version."""
    encoder = build_encoder(name)
    preprocessing = str(encoder.preprocessing)
    return encoder, EncoderVersion(encoder=name, revision=encoder.revision, preprocessing=preprocessing)


def load_data(
    source: Source, cache: Path, device: str = "auto", should_stop: Callable[[], bool] = never
) -> Dataset:
    """Load the images of a source; if it has a frozen encoder, as vectors."""
    frozen = Embeddings(source, cache, device, should_stop) if source.frozen else None
    return data.load(source, frozen, cache=cache)


def foresee_data(source: Source, cache: Path, device: str = "auto") -> tuple[Dataset, float]:
    """A stand-in for the data set without reading all images, and the seconds that embedding them would take.

    A frozen encoder embeds only a few images, and the vector of one of them stands for all.
    """
    foreseen = Foreseen(source, cache, device) if source.frozen else None
    return data.load(source, foreseen, unread=True), foreseen.seconds if foreseen else 0.0


class Embeddings:
    """Embeds images with the frozen encoder of a source, and caches their vectors."""

    def __init__(
        self, source: Source, cache: Path, device: str = "auto", should_stop: Callable[[], bool] = never
    ) -> None:
        assert source.frozen
        self.encoder, self.views = source.frozen, source.views
        self.device, self.should_stop = resolve_device(device), should_stop
        made = f"{self.encoder.model_dump_json()}/{self.views}"
        self.key = blake2b(made.encode(), digest_size=8).hexdigest()
        self.folder = cache / f"embedded-{self.key}"

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder; its encoder must be the same version as when the run began."""
        then, (encoder, now) = self.encoder, version_of(self.encoder.encoder)
        if now != then:
            changed = "revision" if now.revision != then.revision else "preprocessing"
            was, is_now = getattr(then, changed), getattr(now, changed)
            raise RunError(
                f"The {changed} of {then.encoder} has changed since the run began: it was {was} and is now "
                f"{is_now}."
            )
        return Embedder(encoder, self.device, views=self.views)

    def files(self, paths: Sequence[str], strict: bool) -> tuple[EmbeddedImages, list[int], list[str]]:
        """The vectors of the readable files, their rows in `paths`, and the other files with the reason."""
        if len(paths) >= LARGE:
            self.check(len(paths))
        digests, failed = digests_of(paths, strict)
        tried = set[int]()

        def embedded(rows: Sequence[int]) -> Iterator[Part]:
            tried.update(rows)
            for each in self.embedder.files([paths[row] for row in rows], strict):
                failed.extend(each.failed)
                yield each.digests, each.vectors

        vectors = self._vectors(digests, embedded)
        kept = [row for row, digest in enumerate(digests) if digest in vectors]
        failed += [
            f"{paths[row]}: a copy of a file that cannot be read"
            for row, digest in enumerate(digests)
            if digest and digest not in vectors and row not in tried
        ]
        check_any_read(kept, failed)
        return self._set(vectors, [paths[row] for row in kept], [digests[row] for row in kept]), kept, failed

    def check(self, number: int, new: int = 0) -> str:
        """What the vectors of this many images will take, in words; refuse what does not fit.

        Those of `new` images are put into the cache.
        """
        each = self.views * self.embedder.encoder.dim * 2
        memory = COPIES * number * each + self.embedder.memory(new)
        return check_needs(new, new * each, memory, str(self.folder), Hint.EMBED)

    def images(self, images: ImageSet) -> EmbeddedImages:
        """The vectors of loaded images, or of the files that they were loaded from."""
        if all(map(is_there, images.names)):
            return self.files(images.names, strict=True)[0]
        digests = _digests(images)

        def embedded(rows: Sequence[int]) -> Iterator[Part]:
            remaining = iter(rows)
            for vectors in self.embedder.images(images.select(torch.tensor(rows))):
                yield [digests[row] for row in islice(remaining, len(vectors))], vectors

        return self._set(self._vectors(digests, embedded), images.names, digests)

    def _set(
        self, vectors: Mapping[str, Tensor], names: Sequence[str], digests: Sequence[str]
    ) -> EmbeddedImages:
        """Unit vectors (n, V, D) of the images with these digests."""
        if digests:
            values = torch.stack([vectors[digest] for digest in digests]).float()
        else:
            values = torch.zeros(0, self.views, self.embedder.encoder.dim)
        images = EmbeddedImages(F.normalize(values, dim=-1).half(), names)
        images.key, images.digests = self.key, digests
        return images

    def _vectors(
        self, digests: Sequence[str], embedded: Callable[[Sequence[int]], Iterator[Part]]
    ) -> dict[str, Tensor]:
        """Digest → vectors (V, D): all in the cache, and those that `embedded` makes of the missing rows."""
        found = self.cached()
        missing = {digest: row for row, digest in enumerate(digests) if digest and digest not in found}
        if not missing:
            return found
        needs = self.check(len(digests), len(missing))
        if len(missing) >= MANY:
            log.info(needs)
        unsaved, saved = list[Part](), time.monotonic()
        try:
            for part in embedded(list(missing.values())):
                found.update(zip(*part, strict=True))
                unsaved.append(part)
                if time.monotonic() - saved >= PAUSE:
                    self._save(unsaved)
                    unsaved, saved = [], time.monotonic()
                if self.should_stop():
                    raise Stopped
        finally:
            self._save(unsaved)
        return found

    def _save(self, parts: Sequence[Part]) -> None:
        """Write the parts to a new file, so that several runs can add to the cache at the same time."""
        digests = [digest for part, _ in parts for digest in part]
        if digests:
            name = digest_of("".join(digests).encode())
            vectors = torch.cat([vectors for _, vectors in parts])
            tensors = {"vectors": vectors, "digests": torch.tensor(packed(digests))}
            write_tensors(self.folder / f"{name}.safetensors", save(tensors, UNSEALED))

    def cached(self) -> dict[str, Tensor]:
        """Digest → vectors (V, D) in the cache."""
        found: dict[str, Tensor] = {}
        for path in sorted(self.folder.glob("*.safetensors")):
            try:
                with reading(path, "a file of vectors"):
                    tensors, _ = read_tensors(path, load)
                    found.update(zip(unpacked(tensors["digests"].numpy()), tensors["vectors"], strict=True))
            except RunError as error:
                log.warning("%s Its images are embedded again.", error)
        return found


class Foreseen(Embeddings):
    """Embeds a few images to predict how long all would take."""

    seconds = 0.0

    def files(self, paths: Sequence[str], strict: bool) -> tuple[EmbeddedImages, list[int], list[str]]:
        self.check(len(paths))
        some = [paths[row] for row in self._some(len(paths))]
        batches = (each.vectors for each in self.embedder.files(some))
        return self._foreseen(paths, digests_of(some, strict=False)[0], batches), [*range(len(paths))], []

    def images(self, images: ImageSet) -> EmbeddedImages:
        some = images.select(torch.tensor(self._some(len(images)), dtype=torch.long))
        return self._foreseen(images.names, _digests(some), self.embedder.images(some))

    def _some(self, number: int) -> list[int]:
        """Rows of images, at even steps."""
        few = min(SOME * self.embedder.batch, number)
        return [place * number // few for place in range(few)]

    def _foreseen(
        self, names: Sequence[str], digests: Sequence[str], batches: Iterator[Tensor]
    ) -> EmbeddedImages:
        """Give all images one vector; `digests` and `batches` are those of some, which stand for all."""
        blank = torch.zeros(1, self.views, self.embedder.encoder.dim)
        vectors = torch.cat([next(batches, blank), blank])
        start, done = time.monotonic(), sum(map(len, batches))
        if done:
            cached = self.cached()
            new = len(names) * sum(digest not in cached for digest in digests) / len(digests)
            self.seconds += (time.monotonic() - start) / done * new
        found = EmbeddedImages(vectors[:1].expand(len(names), -1, -1), names)
        found.digests = names
        return found


def _digests(images: ImageSet) -> list[str]:
    """(n,) digests of the image files, or of the loaded images."""
    if found := images.contents():
        return found
    chunks = images.to(torch.device("cpu")).take_each(torch.split(torch.arange(len(images)), CHUNK))
    return [digest_of(pixels.numpy().tobytes()) for chunk in chunks for pixels in chunk]
