"""The folder of a run: its files, its lock, and the rule that no other run is overwritten."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from newfound.core.errors import Hint, RunError, UsageError
from newfound.core.files import (
    DATASETS,
    check_apart,
    read_record,
    read_text,
    reading,
    remove_leftovers,
    write_record,
    writing,
)
from newfound.run.models import EpochLine, Estimate, Request, Results, Trust


class Folder:
    """The files of one run."""

    def __init__(self, path: Path, shared: Path | None = None) -> None:
        """`shared` is where runs share pretrained weights: by default beside them."""
        self.path, self.cache = path, shared or path.parent / "pretrained"
        self.config, self.results = path / "config.json", path / "results.json"
        self.checkpoint, self.metrics = path / "checkpoint.safetensors", path / "metrics.jsonl"
        self.assignments, self.pile = path / "assignments.csv", path / "pile.safetensors"
        self.report, self.edits = path / "report.html", path / "edits.jsonl"
        self.images = path / "images.csv"
        """The images of a run that follows another one."""
        self.estimate, self.trust = path / "estimate" / "estimate.json", path / "trust.json"
        written = (self.checkpoint, self.metrics, self.results, self.assignments, self.pile, self.report)
        self.files = (self.config, *written)
        """Everything that a run writes, its config first."""

    @property
    def quoted(self) -> str:
        """The path, quoted for a shell."""
        return shlex.quote(str(self.path))

    def inner(self, name: str) -> "Folder":
        """A run within this one that shares its pretrained weights: `estimate/probe`, `trust`."""
        return Folder(self.path / name, self.cache)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out; a second lock within this process is the same one."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / ".lock", timeout=0, thread_local=False, is_singleton=True)
            try:
                lock.acquire()
            except Timeout:
                raise RunError(f"{self.path} is locked by another newfound process.") from None
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def open(self, request: Request, resume: bool) -> Iterator[None]:
        """Lock the folder for a new run, or for the one to resume; any other run in it is refused."""
        with self.locked():
            self.check(request, resume)
            remove_leftovers(self.path)
            if not self.config.exists() or self.request().source.num_novel is None:
                write_record(self.config, request)
            yield

    def check(self, request: Request, resume: bool) -> None:
        """Refuse a folder that holds a run, unless it is the one to resume."""
        check_apart(self.path, request.source.labelled, request.source.unlabelled)
        if not self.config.exists():
            if found := [path.name for path in (*self.files, self.edits) if path.exists()]:
                raise UsageError(f"{self.path} holds {', '.join(found)} of another run.", Hint.NEW_FOLDER)
            return
        if not resume:
            raise UsageError(f"{self.path} already holds a run.", Hint.RESUME_OR_NEW_FOLDER)
        if differing := self.request().differences(request):
            names, moved = ", ".join(differing), not {*differing} - {"labelled", "unlabelled"}
            hint = Hint.RELOCATE if moved else Hint.NEW_FOLDER
            raise UsageError(f"The run in {self.path} was started with other values of {names}.", hint)

    def request(self) -> Request:
        """What the run was asked to do."""
        if not self.config.exists():
            raise UsageError(f"There is no run in {self.path}.")
        return read_record(self.config, Request)

    def read_results(self) -> Results:
        """What the run found."""
        if not self.results.exists():
            self.request()  # where there is no run at all, say that
            raise UsageError(f"The run in {self.path} is not finished.", Hint.RESUME)
        return read_record(self.results, Results)

    def read_metrics(self) -> list[EpochLine]:
        """One line for each epoch."""
        with reading(self.metrics, "a log of epochs"):
            return [EpochLine.model_validate_json(line) for line in read_text(self.metrics).splitlines()]

    def read_estimate(self) -> Estimate | None:
        """The estimate of the number of novel classes, if the run made one."""
        return read_record(self.estimate, Estimate) if self.estimate.exists() else None

    def read_trust(self) -> Trust | None:
        """How well hidden known classes were found, if that was tried."""
        return read_record(self.trust, Trust) if self.trust.exists() else None

    def check_images_exist(self) -> None:
        """The folders or lists of own images must be where they were; others say so when they are read."""
        source = self.request().source
        for place in (source.labelled, source.unlabelled):
            if place and not (place.startswith(DATASETS) or "{" in place or os.path.exists(place)):
                raise UsageError(f"The images of {self.path} are gone from {place}.", Hint.RELOCATE)
