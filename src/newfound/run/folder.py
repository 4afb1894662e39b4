"""The folder of a run: its files, its lock, and the check that no other run is overwritten."""

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
    """The folder of one run."""

    def __init__(self, path: Path, shared: Path | None = None) -> None:
        """`shared` is the cache of pretrained weights, by default beside the folder."""
        self.path, self.cache = path, shared or path.parent / "pretrained"
        self.config, self.results = path / "config.json", path / "results.json"
        self.checkpoint, self.metrics = path / "checkpoint.safetensors", path / "metrics.jsonl"
        self.assignments, self.pile = path / "assignments.csv", path / "pile.safetensors"
        self.report, self.edits = path / "report.html", path / "edits.jsonl"
        self.images = path / "images.csv"
        """The images of a run that follows another one, with their labels."""
        self.estimate, self.trust = path / "estimate" / "estimate.json", path / "trust.json"
        written = (self.checkpoint, self.metrics, self.results, self.assignments, self.pile, self.report)
        self.files = (self.config, *written)
        """The files that a run writes, its config first."""

    @property
    def quoted(self) -> str:
        """The path, quoted for a shell."""
        return shlex.quote(str(self.path))

    def inner(self, name: str) -> "Folder":
        """A run within this one that shares its cache: `estimate/probe`, `trust`."""
        return Folder(self.path / name, self.cache)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other processes; within this process it can be locked again."""
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
        """Lock the folder for a new run or the one to resume; refuse any other run in it."""
        with self.locked():
            self.check(request, resume)
            remove_leftovers(self.path)
            if not self.config.exists() or self.request().source.num_novel is None:
                write_record(self.config, request)
            yield

    def check(self, request: Request, resume: bool) -> None:
        """Refuse a folder that holds a run, unless that is the one to resume."""
        check_apart(self.path, request.source.labelled, request.source.unlabelled)
        if not self.config.exists():
            if found := [path.name for path in (*self.files, self.edits) if path.exists()]:
                raise UsageError(f"{self.path} holds {', '.join(found)} of another run.", Hint.NEW_FOLDER)
            return
        if not resume:
            raise UsageError(f"{self.path} already holds a run.", Hint.RESUME_OR_NEW_FOLDER)
        if differing := self.request().differences(request):
            hint = Hint.RELOCATE if {*differing} <= {"labelled", "unlabelled"} else Hint.NEW_FOLDER
            names = ", ".join(differing)
            raise UsageError(f"The run in {self.path} was started with other values of {names}.", hint)

    def request(self) -> Request:
        """Read config.json: what the run was asked to do."""
        if not self.config.exists():
            raise UsageError(f"There is no run in {self.path}.")
        return read_record(self.config, Request)

    def read_results(self) -> Results:
        """Read results.json: what the run found."""
        if not self.results.exists():
            self.request()  # refuses a folder without a run
            raise UsageError(f"The run in {self.path} is not finished.", Hint.RESUME)
        return read_record(self.results, Results)

    def read_metrics(self) -> list[EpochLine]:
        """Read metrics.jsonl: one line per epoch."""
        with reading(self.metrics, "a log of epochs"):
            return [EpochLine.model_validate_json(line) for line in read_text(self.metrics).splitlines()]

    def read_estimate(self) -> Estimate | None:
        """Read the estimate of the number of novel classes, if the run made one."""
        return read_record(self.estimate, Estimate) if self.estimate.exists() else None

    def read_trust(self) -> Trust | None:
        """Read trust.json, if it was written."""
        return read_record(self.trust, Trust) if self.trust.exists() else None

    def check_images_exist(self) -> None:
        """Refuse a run whose folders or lists of images are gone; other sources are checked when read."""
        source = self.request().source
        for place in (source.labelled, source.unlabelled):
            if place and not (place.startswith(DATASETS) or "{" in place or os.path.exists(place)):
                raise UsageError(f"The images of {self.path} are gone from {place}.", Hint.RELOCATE)
