"""Sort many new images into the classes of a run, part by part, on this machine or on a Ray cluster."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from functools import partial
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

from newfound.core.errors import DataError
from newfound.core.files import check_apart, check_writable, located
from newfound.data.archives import Block, Part, Table, parts_of, read_ahead
from newfound.data.dataset import counted
from newfound.data.decode import Reading
from newfound.data.parquet import Answered, Answers, import_pyarrow, parquet_files
from newfound.review.review import Review
from newfound.run.folder import Folder
from newfound.run.parts import (
    COPIES,
    NAME,
    Done,
    PartsReport,
    Workers,
    announce,
    in_parts,
    new_files,
    work_through,
)
from newfound.run.pile import COLUMNS
from newfound.run.trained import Predictor, takes_vectors
from newfound.run.training import State

log = logging.getLogger(__name__)


def predict_parts(review: Review, images: str, out: str, strict: bool, workers: Workers) -> PartsReport:
    """Sort the images that are not in the folder `out` yet: anything that `embed` takes, or embeddings.

    Finished parts are kept, whatever stops the call.
    """
    import_pyarrow()  # before any work
    images, out = located(images), located(out)
    answers, is_local = Answers(out, answered(review)), "://" not in out
    if is_local:
        check_writable(Path(out) / "predictions")
        check_apart(Path(out), review.source.labelled, review.source.unlabelled, images)
    with Folder(Path(out)).locked() if is_local else nullcontext():
        missing, before, left_out = _missing(review, images, answers, workers)
        log.info(f"{counted(len(missing), 'part')} to sort, {before:,} sorted already")
        number = announce(missing, answers.folder, NAME, *_memory(review.folder))
        here, folder = workers.engine == "local", review.folder
        make = partial(
            Worker, folder.path if here else _files(folder), answers, strict, number if here else 0
        )
        done, failed = work_through(missing, make, workers)
        answers.finish()
    return PartsReport(done, before, (*left_out, *failed))


def answered(review: Review) -> Answered:
    """What the answers depend on: a digest of the run and its edits."""
    folder = review.folder
    edits = folder.edits.read_bytes() if folder.edits.exists() else b""
    return Answered(run=blake2b(folder.results.read_bytes() + edits, digest_size=16).hexdigest())


def _missing(
    review: Review, images: str, answers: Answers, workers: Workers
) -> tuple[list[Part | Table], int, list[str]]:
    """The parts to sort, how many were sorted before, and the files left out."""
    parts: Sequence[Part | Table] | None
    if takes_vectors(review.source, images):
        parts = [Table(path) for path in parquet_files(images) or [images]]
    else:
        parts = parts_of(images)
    if parts is None:
        new, before, left_out = new_files(images, answers)
        return list(in_parts(new, workers)), before, left_out
    missing = list(answers.missing(parts))
    return missing, len(parts) - len(missing), []


def _files(folder: Folder) -> dict[str, bytes]:
    """The contents of a run's files, for a worker on another machine."""
    kept = (*folder.files, folder.edits)
    return {path.name: path.read_bytes() for path in kept if path.exists() and path != folder.report}


def _memory(folder: Folder) -> tuple[int, int]:
    """Bytes of memory for an image or its vector, and for the run."""
    look = State.load(folder.checkpoint)[0].look
    each = 4 * look.size if look.kind == "vectors" else 3 * look.stored**2
    run = sum(path.stat().st_size for path in folder.files if path.exists())
    return each, COPIES * run


class Worker:
    """Sorts the images of parts, one file of answers for each part."""

    def __init__(
        self, run: Path | Mapping[str, bytes], answers: Answers, strict: bool, number: int = 0
    ) -> None:
        """The run is given as a folder or, for another machine, as its files.

        If it sorts all parts, `number` is how many images they have, or 0.
        """
        if isinstance(run, Mapping):
            self._copy = TemporaryDirectory()
            for name, content in run.items():
                Path(self._copy.name, name).write_bytes(content)
        self.review = Review.open(self._copy.name if isinstance(run, Mapping) else run)
        self.predictor = Predictor(self.review.folder, strict, self.review.has_splits)
        self.answers, self.copies = answers, self.review.copies()
        self.predictor.reading = Reading(number, "Sorting") if number else None

    def __call__(self, parts: Sequence[Part | Table]) -> Iterator[Done]:
        with closing(read_ahead([part for part in parts if not isinstance(part, Table)])) as ahead:
            for part in parts:
                yield self._sort(part, () if isinstance(part, Table) else next(ahead))

    def _sort(self, part: Part | Table, blocks: Iterable[Block]) -> Done:
        predict, is_table = self.predictor, isinstance(part, Table)
        try:
            predicted = predict.vectors(part.name) if is_table else predict.images(blocks)
            found = [self.review.sorted(each, self.copies) for each in predicted]
        except DataError as error:
            if self.predictor.strict or is_table:
                raise
            return 0, [error.message]
        failed = [each for block in found for each in block.left_out]
        rows = [row for block in found for row in block.rows()]
        if rows:
            columns: dict[str, list[object]] = {
                name: list(values) for name, values in zip(COLUMNS, zip(*rows, strict=True), strict=True)
            }
            columns["image"] = [self.answers.relative(str(image)) for image in columns["image"]]
            self.answers.put(self.answers.file_of(part), columns)
        return len(rows), failed
