"""Embed images once into a folder of Parquet files, on this machine or on a Ray cluster."""

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any, Literal

import torch
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.files import check_writable, located
from newfound.core.registry import library
from newfound.core.source import Source
from newfound.data.archives import ROWS, Files, Part, file_of, parts_of
from newfound.data.dataset import counted
from newfound.data.decode import digests_of
from newfound.data.folders import pile_files
from newfound.data.parquet import Made, Shards, import_pyarrow
from newfound.engine.device import resolve_device, resolve_precision
from newfound.engine.embedding import Embedded, Embedder
from newfound.run.folder import Folder
from newfound.run.frozen import Embeddings, version_of

log = logging.getLogger(__name__)
Engine = Literal["local", "ray"]
FEW = 64
"""The fewest files of a part that a worker of a cluster gets."""


@dataclass(frozen=True)
class EmbedReport:
    """What a call did."""

    images: int
    """How many images it embedded."""
    before: int
    """How many more had a vector already, in the folder or in the cache of runs beside it.

    Of tar files and datasets, how many parts.
    """
    left_out: tuple[str, ...]
    """Files that are not used, each with the reason."""


def embed(
    images: str | Path,
    encoder: str,
    out: str | Path,
    views: int = 1,
    strict: bool = False,
    engine: Engine = "local",
    address: str | None = None,
    workers: int | None = None,
) -> EmbedReport:
    """Embed the images that have no vector in `out` yet: a folder, a CSV, a list, tar files or a dataset.

    What was embedded stays, whatever stops the call; an image is known by its path, or by its content to the
    cache of the runs beside `out`, whose vectors are taken over; those of tar files and datasets are known by
    the part they are in. The `address` of a Ray cluster, and how many `workers` it gets, are by
    default those of this machine.
    """
    import_pyarrow()  # before any work
    images, out = str(images), str(out)
    parts = parts_of(images)
    network, version = version_of(encoder)
    embedder = _embedder(network, views)
    shards = Shards(out, Made(encoder=version, views=views))
    if "://" in out:
        return _by_parts(images, parts, embedder, shards, strict, engine, address, workers)
    check_writable(Path(out) / "embeddings")
    with Folder(Path(out)).locked():
        if engine == "ray" or parts is not None:
            return _by_parts(images, parts, embedder, shards, strict, engine, address, workers)
        return _files(images, embedder, shards, strict)


def _files(images: str, embedder: Embedder, shards: Shards, strict: bool) -> EmbedReport:
    """Files on this machine, batch after batch; those of an unfinished part are kept."""
    new, before, left_out = _new_files(images, shards)
    done = 0
    try:
        for batch in embedder.files(new, strict):
            shards.add([new[row] for row in batch.rows], batch.vectors.numpy(), batch.digests)
            done += len(batch.rows)
            left_out += batch.failed
    finally:
        shards.write()
    return EmbedReport(done, before, tuple(left_out))


def _new_files(images: str, shards: Shards) -> tuple[list[str], int, list[str]]:
    paths, left_out = pile_files(Path(images))
    known = set(shards.names())
    new = [path for path in paths if located(path) not in known]
    if "://" not in shards.folder:
        new = _without_cached(new, shards)
    before = len(paths) - len(new)
    number, by = counted(len(new), "image"), shards.made.encoder
    log.info(f"{number} to embed with {by}, {before:,} embedded before")
    return new, before, left_out


def _without_cached(paths: list[str], shards: Shards) -> list[str]:
    """The files whose content the cache of the runs beside the folder does not have."""
    made = shards.made
    source = Source(embedded_by=made.encoder, views=made.views)
    cached = Embeddings(source, Folder(Path(shards.folder)).cache).cached()
    contents = dict(zip(paths, digests_of(paths, strict=False)[0], strict=True)) if cached else {}
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
    engine: Engine,
    address: str | None,
    workers: int | None,
) -> EmbedReport:
    """Part after part, or many at a time on a cluster; each is published whole."""
    left_out = list[str]()
    if parts is None:
        new, before, left_out = _new_files(images, shards)
        shards.write()
        size = min(ROWS, max(len(new) // (4 * (workers or 1)), FEW))
        missing: list[Part] = [Files(new[first : first + size]) for first in range(0, len(new), size)]
    else:
        there = {os.path.basename(path) for path in shards.files}
        missing = [part for part in parts if file_of(part) not in there]
        before = len(parts) - len(missing)
        number, by = counted(len(missing), "part"), shards.made.encoder
        log.info(f"{number} to embed with {by}, {before:,} embedded before")
    if engine == "ray":
        results = _on_cluster(missing, shards, strict, address, workers)
    else:
        results = map(Worker(shards, strict, embedder).embed, missing)
    done = 0
    for place, (embedded, failed) in enumerate(results, start=1):
        done += embedded
        left_out += failed
        log.info(f"part {place:,}/{len(missing):,}, {done:,} images")
    shards.finish()
    return EmbedReport(done, before, tuple(left_out))


Done = tuple[int, list[str]]
"""How many images of a part were embedded, and those that could not be read."""


class Worker:
    """Embeds parts, each into a file of its own."""

    def __init__(self, shards: Shards, strict: bool, embedder: Embedder) -> None:
        self.shards, self.strict, self.embedder = shards, strict, embedder

    def embed(self, part: Part) -> Done:
        """Embed a part and publish it; a part that is embedded twice is there once."""
        images, vectors, digests, failed = list[str](), list[Tensor](), list[str](), list[str]()
        for names, batch in self._batches(part):
            images += [names[row] for row in batch.rows]
            vectors.append(batch.vectors)
            digests += batch.digests
            failed += batch.failed
        if images:
            self.shards.publish(file_of(part), images, torch.cat(vectors).numpy(), digests)
        return len(images), failed

    def _batches(self, part: Part) -> Iterator[tuple[Sequence[str], Embedded]]:
        if isinstance(part, Files):
            for batch in self.embedder.files(part.paths, self.strict):
                yield part.paths, batch
            return
        stream = part.images()
        while block := list(islice(stream, ROWS)):
            names, contents = [name for name, _ in block], [content for _, content in block]
            for batch in self.embedder.files(names, self.strict, contents):
                yield names, batch


class ClusterWorker(Worker):
    """A `Worker` as Ray Data calls it."""

    def __init__(self, parts: Sequence[Part], shards: Shards, strict: bool) -> None:
        made = shards.made
        super().__init__(shards, strict, _embedder(version_of(made.encoder.encoder)[0], made.views))
        self.parts = parts

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The rows of parts → what was done with them."""
        results: list[Done] = []
        # Processes that are forked from one of Ray's may hang, and on another thread none is.
        thread = Thread(target=lambda: results.extend(map(self.embed, (self.parts[n] for n in batch["id"]))))
        thread.start()
        thread.join()
        if len(results) < len(batch["id"]):
            raise RuntimeError("a part could not be embedded; the reason is above")
        return {"images": [number for number, _ in results], "failed": ["\n".join(f) for _, f in results]}


def _on_cluster(
    parts: Sequence[Part], shards: Shards, strict: bool, address: str | None, workers: int | None
) -> Iterator[Done]:
    """A part that a killed worker had begun is embedded by another one."""
    library("ray.data", "ray")
    ray = library("ray", "ray")
    if not parts:
        return
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False)
    found = ray.cluster_resources()
    gpus, number = int(found.get("GPU", 0)), int(found.get("CPU", 1))
    rows = ray.data.range(len(parts), override_num_blocks=len(parts)).map_batches(
        ClusterWorker,
        batch_size=1,
        fn_constructor_kwargs={"parts": list(parts), "shards": shards, "strict": strict},
        concurrency=min(workers or gpus or number, len(parts)),
        num_gpus=1 if gpus else None,
        num_cpus=0.5,
    )
    for row in rows.iter_rows():
        yield int(row["images"]), row["failed"].splitlines()


def _embedder(network: Encoder, views: int) -> Embedder:
    device = resolve_device("auto")
    return Embedder(network, device, resolve_precision("auto", device), views)
