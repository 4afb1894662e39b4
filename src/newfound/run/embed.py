"""Embed images once into a folder of Parquet files, on this machine or on a Ray cluster."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.errors import DataError
from newfound.core.files import check_writable, located
from newfound.core.source import Source
from newfound.data.archives import ROWS, Block, Files, Part, parts_of, read_ahead
from newfound.data.dataset import counted
from newfound.data.decode import Reading, digests_of
from newfound.data.parquet import Made, Shards, import_pyarrow
from newfound.engine.device import resolve_device
from newfound.engine.embedding import Embedder
from newfound.run.folder import Folder
from newfound.run.frozen import Embeddings, version_of
from newfound.run.parts import (
    COPIES,
    HERE,
    NAME,
    Done,
    PartsReport,
    Workers,
    announce,
    in_parts,
    new_files,
    work_through,
)

log = logging.getLogger(__name__)


def embed(
    images: str | Path,
    encoder: str,
    out: str | Path,
    views: int = 1,
    strict: bool = False,
    workers: Workers = HERE,
) -> PartsReport:
    """Embed the images that have no vector in `out` yet: a folder, a CSV, a list, tar files or a dataset.

    A call that was stopped can be repeated: what is embedded is kept. Images are identified by their path, or
    in tar files and datasets by their part. Vectors in the cache of runs beside `out`, where images are
    identified by their content, are reused.
    """
    import_pyarrow()  # before any work
    images, out = located(str(images)), located(str(out))
    parts = parts_of(images)
    network, version = version_of(encoder)
    embedder = _embedder(network, views)
    shards = Shards(out, Made(encoder=version, views=views))
    local = "://" not in out
    if local:
        check_writable(Path(out) / "embeddings")
    with Folder(Path(out)).locked() if local else nullcontext():
        if local and workers.engine == "local" and parts is None:
            return _files(images, embedder, shards, strict)
        return _by_parts(images, parts, embedder, shards, strict, workers)


def _files(images: str, embedder: Embedder, shards: Shards, strict: bool) -> PartsReport:
    """Embed files on this machine; if the call is stopped, finished batches are kept."""
    new, before, left_out = _new_files(images, embedder, shards)
    done = 0
    try:
        for batch in embedder.files(new, strict):
            shards.add([new[row] for row in batch.rows], batch.vectors.numpy(), batch.digests)
            done += len(batch.rows)
            left_out += batch.failed
    finally:
        shards.write()
    return PartsReport(done, before, tuple(left_out))


def _new_files(images: str, embedder: Embedder, shards: Shards) -> tuple[list[str], int, list[str]]:
    """The files to embed, how many were embedded before, and those that were left out."""
    new, before, left_out = new_files(images, shards)
    announce([Files(new)] if new else [], shards.folder, *_bytes(embedder, len(new)))
    if "://" not in shards.folder:
        number, new = len(new), _without_cached(new, shards)
        before += number - len(new)
    _log_work(counted(len(new), "image"), before, shards)
    return new, before, left_out


def _log_work(number: str, before: int, shards: Shards) -> None:
    log.info(f"{number} to embed with {shards.made.encoder}, {before:,} embedded before")


def _without_cached(paths: list[str], shards: Shards) -> list[str]:
    """The files without a vector in the cache of runs beside the folder; the others' vectors are added."""
    made = shards.made
    source = Source(embedded_by=made.encoder, views=made.views)
    cached = Embeddings(source, Folder(Path(shards.folder)).cache).cached()
    here = [path for path in paths if "://" not in path] if cached else []
    contents = dict(zip(here, digests_of(here, strict=False)[0], strict=True))
    for path, digest in contents.items():
        if digest in cached:
            shards.add([path], cached[digest][None].numpy(), [digest])
    return [path for path in paths if contents.get(path) not in cached]


def _by_parts(
    images: str,
    parts: Sequence[Part] | None,
    embedder: Embedder,
    shards: Shards,
    strict: bool,
    workers: Workers,
) -> PartsReport:
    """Embed parts one after another or, on a cluster, in parallel."""
    left_out = list[str]()
    missing: Sequence[Part]
    if parts is None:
        new, before, left_out = _new_files(images, embedder, shards)
        shards.write()
        missing, number = in_parts(new, workers), len(new)
    else:
        missing = shards.missing(parts)
        before = len(parts) - len(missing)
        _log_work(counted(len(missing), "part"), before, shards)
        number = announce(missing, shards.folder, *_bytes(embedder, ROWS))
    here = (embedder, number) if workers.engine == "local" else ()
    make = partial(Worker, shards, strict, *here)
    done, failed = work_through(missing, make, workers)
    shards.finish()
    return PartsReport(done, before, (*left_out, *failed))


class Worker:
    """Embeds parts, each into a file of its own."""

    def __init__(
        self, shards: Shards, strict: bool, embedder: Embedder | None = None, number: int = 0
    ) -> None:
        """Without an `embedder`, load the encoder of `shards`.

        If it embeds all parts, `number` is how many images they have, or 0.
        """
        made = shards.made
        self.shards, self.strict = shards, strict
        self.embedder = embedder or _embedder(version_of(made.encoder.encoder)[0], made.views)
        self.reading = Reading(number, "Embedding") if number else None

    def __call__(self, parts: Sequence[Part]) -> Iterator[Done]:
        with closing(read_ahead(parts)) as ahead:
            for part, blocks in zip(parts, ahead, strict=True):
                yield self._embed(part, blocks)

    def _embed(self, part: Part, blocks: Iterable[Block]) -> Done:
        images, vectors, digests, failed = list[str](), list[Tensor](), list[str](), list[str]()
        try:
            for names, contents, _ in blocks:
                for batch in self.embedder.files(names, self.strict, contents, self.reading):
                    images += [names[row] for row in batch.rows]
                    vectors.append(batch.vectors)
                    digests += batch.digests
                    failed += batch.failed
        except DataError as error:
            if self.strict:
                raise
            return 0, [error.message]
        if images:
            self.shards.publish(self.shards.file_of(part), images, torch.cat(vectors).numpy(), digests)
        return len(images), failed


def _bytes(embedder: Embedder, number: int) -> tuple[int, int, int]:
    """Bytes per image in the files and in memory, with vectors in half precision, and to decode `number`."""
    each = 2 * embedder.views * embedder.encoder.dim + NAME
    return each, COPIES * each, embedder.memory(number)


def _embedder(network: Encoder, views: int) -> Embedder:
    return Embedder(network, resolve_device("auto"), views=views)
