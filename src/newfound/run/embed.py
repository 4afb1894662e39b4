"""Embed image files with a pretrained encoder, into a folder of Parquet files."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from newfound.core.files import check_writable
from newfound.data.dataset import counted
from newfound.data.folders import pile_files
from newfound.data.parquet import Made, Shards, import_pyarrow
from newfound.engine.device import resolve_device, resolve_precision
from newfound.engine.embedding import Embedder
from newfound.run.folder import Folder
from newfound.run.frozen import version_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EmbedReport:
    """What a call did."""

    images: int
    """How many images it embedded."""
    before: int
    """How many more had a vector already."""
    left_out: tuple[str, ...]
    """Files that are not used, each with the reason."""


def embed(images: Path, encoder: str, out: Path, views: int = 1, strict: bool = False) -> EmbedReport:
    """Embed the images of a folder, a CSV or a list that have no vector in `out` yet.

    What was embedded stays, whatever stops the call; an image is known by its path.
    """
    import_pyarrow()  # before any work
    check_writable(out / "embeddings")
    paths, left_out = pile_files(images)
    device = resolve_device("auto")
    network, version = version_of(encoder)
    embedder = Embedder(network, device, resolve_precision("auto", device), views)
    done = 0
    with Folder(out).locked():
        shards = Shards(out, Made(encoder=version, views=views))
        known = set(shards.names())
        new = [path for path in paths if os.path.abspath(path) not in known]
        before = len(paths) - len(new)
        log.info(f"{counted(len(new), 'image')} to embed with {version}, {before:,} embedded before")
        try:
            for batch in embedder.files(new, strict):
                shards.add([new[row] for row in batch.rows], batch.vectors.numpy(), batch.digests)
                done += len(batch.rows)
                left_out += batch.failed
        finally:
            shards.write()
    return EmbedReport(done, before, tuple(left_out))
