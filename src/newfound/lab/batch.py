"""Many runs in a row on the same images: interrupted ones continue, finished ones are reused."""

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from newfound.core.errors import RunError, UsageError, shortened
from newfound.core.registry import method_entry
from newfound.core.settings import Recipe
from newfound.data.dataset import Dataset
from newfound.run.events import Watch, ignore
from newfound.run.folder import Folder
from newfound.run.models import Results
from newfound.run.run import Run
from newfound.run.training import State, check_same_images

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """One run of a batch."""

    label: str
    folder: Folder
    recipe: Recipe


@dataclass(frozen=True)
class Batch:
    """The runs of one command on one data set."""

    data: Dataset
    command: str
    watch: Callable[[str], Watch]
    """Called with the label of each run: what shows its progress."""
    should_stop: Callable[[], bool]
    failed: list[str] = field(default_factory=list)
    """The labels of the runs that failed."""

    def results(self, jobs: Sequence[Job]) -> Iterator[Results | None]:
        """The results of each run, as it ends; None where it failed, which is logged.

        All of them are checked before the first is trained.
        """
        finished = [job.folder.path.name for job in jobs if job.folder.results.exists()]
        for job in jobs:
            _check_code(job)
            run = self._run(job)
            if job.folder.results.exists():
                job.folder.check(run.request, resume=True)
                self._check_images(job.folder)
            else:
                run.check()
        if finished:
            place = jobs[0].folder.path.parent
            log.info(
                "Reused from %s: %s. Delete a folder there to train it again.", place, shortened(finished)
            )
        for job in jobs:
            gc.collect()  # a trained run is part of a reference cycle, which would hold GPU memory
            results = self._result(job)
            for warning in results.warnings if results else ():
                log.warning(warning)
            yield results

    def _result(self, job: Job) -> Results | None:
        if job.folder.results.exists():
            return job.folder.read_results()
        try:
            return self._run(job, self.watch(job.label)).discover()
        except RunError as error:
            log.warning("failed: %s", error.message)
            self.failed.append(job.label)
            return None

    def check_finished(self) -> None:
        """Raise if a run failed."""
        if self.failed:
            raise RunError(f"Failed, as shown above: {', '.join(self.failed)}.")

    def _check_images(self, folder: Folder) -> None:
        """Refuse to reuse a run on other images."""
        state = State.load(folder.checkpoint)[0]
        check_same_images(state, folder, self.data)

    def _run(self, job: Job, watch: Watch = ignore) -> Run:
        return Run(
            job.folder,
            self.data,
            job.recipe,
            resume=True,
            command=self.command,
            watch=watch,
            should_stop=self.should_stop,
        )


def _check_code(job: Job) -> None:
    """Refuse a run of another version of the method: its numbers would pass for those of this one."""
    if not job.folder.config.exists():
        return
    if job.folder.request().versions != method_entry(job.recipe.method).versions:
        raise UsageError(
            f"The code of {job.recipe.method} has changed since the run in {job.folder.path} was started. "
            "Delete that folder to train it again."
        )
