"""Several runs on the same images, in a row: interrupted ones continue, finished ones are reused."""

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from newfound.core.errors import RunError, UsageError, check_known, shortened
from newfound.core.files import check_writable
from newfound.core.registry import changes_nothing, method_entry, recipe_for
from newfound.core.settings import Overrides, Recipe, RunConfig
from newfound.core.source import Source
from newfound.data.dataset import Dataset
from newfound.lab.paper import APPENDIX, ESTIMATES
from newfound.run.events import Watch, ignore
from newfound.run.folder import Folder
from newfound.run.frozen import version_of
from newfound.run.models import Results
from newfound.run.run import Run
from newfound.run.training import check_same_images

log = logging.getLogger(__name__)
ESTIMATED = "estimated"
"""The recipe with the number of novel classes that the paper estimates."""


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
    """Label of a run → what shows its progress."""
    should_stop: Callable[[], bool]
    failed: list[str] = field(default_factory=list)
    """The labels of the runs that failed."""

    def results(self, jobs: Sequence[Job]) -> Iterator[Results | None]:
        """Yield the results of each run when it ends; None if it failed, which is logged.

        All runs are checked before the first one is trained.
        """
        finished = [job.folder.path.name for job in jobs if job.folder.results.exists()]
        for job in jobs:
            _check_code(job)
            run = self._run(job)
            if job.folder.results.exists():
                job.folder.check(run.request, resume=True)
                check_same_images(job.folder, self.data)
            else:
                run.check()
        if finished:
            place = jobs[0].folder.path.parent
            log.info(
                "Reused from %s: %s. Delete a folder there to train it again.", place, shortened(finished)
            )
        for job in jobs:
            gc.collect()  # a trained run is in a reference cycle, which would hold GPU memory
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
            raise RunError(f"These runs failed, as shown above: {', '.join(self.failed)}.")

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
    """Refuse a run of another version of the method: its numbers would be taken for those of this one."""
    if not job.folder.config.exists():
        return
    if job.folder.request().versions != method_entry(job.recipe.method).versions:
        raise UsageError(
            f"The code of {job.recipe.method} has changed since the run in {job.folder.path} was started. "
            "Delete that folder to train it again."
        )


def variation(benchmark: str, method: str, recipe: str | None) -> tuple[str | None, Overrides]:
    """The name and settings of a variation; no name for the usual recipe, or if it changes nothing."""
    variations = method_entry(method).variations_for(benchmark)
    if benchmark in ESTIMATES:
        variations[ESTIMATED] = variations.get(APPENDIX, {})
    if recipe is None:
        return None, {}
    check_known(f"recipe of {method} on {benchmark}", recipe, variations)
    if changes_nothing(method, benchmark, recipe):
        log.info("%s changes nothing for %s on %s: running the usual recipe.", recipe, method, benchmark)
        return None, {}
    return recipe, variations[recipe]


def reproduce_source(
    benchmark: str, recipe: str | None, data_dir: str | None, encoder: str | None = None
) -> Source:
    """The images of a benchmark, or their vectors by a frozen encoder.

    The recipe `estimated` takes the number of novel classes that the paper estimates.
    """
    source = Source(benchmark=benchmark, data_dir=data_dir)
    if encoder is not None:
        frozen = {"embedded_by": version_of(encoder)[1], "views": RunConfig().views}
        source = source.model_copy(update=frozen)
    if recipe == ESTIMATED:
        estimated = {"num_novel": ESTIMATES[benchmark], "estimated": "the paper's"}
        source = source.model_copy(update=estimated)
    return source


def reproduce_jobs(
    source: Source,
    method: str,
    recipe: str | None,
    overrides: Overrides,
    seeds: list[int],
    out: Path,
    results: Path,
) -> dict[Path, Job]:
    """Each missing record → the run that makes it. Runs on vectors have folders of their own."""
    jobs, place = {}, Path(source.title)
    if source.frozen:
        place = Path("vectors", source.frozen.encoder.replace(":", "-").replace("/", "-"), source.title)
    for seed in seeds:
        name = f"{method}-{recipe}-seed{seed}" if recipe else f"{method}-seed{seed}"
        record = results / place / f"{name}.json"
        if record.exists():
            log.info("already recorded: %s", record)
            continue
        check_writable(record)
        settings = recipe_for(method, source.name, {**overrides, "seed": seed})
        jobs[record] = Job(f"seed {seed}", Folder(out / place / name), settings)
    return jobs
