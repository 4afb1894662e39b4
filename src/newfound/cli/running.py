"""Many runs in a row, for the verbs that set their numbers side by side."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from newfound.cli.progress import EpochProgress
from newfound.cli.stopping import REPEAT, Stopping
from newfound.core.config import Recipe
from newfound.core.errors import RunError, UsageError, shortened
from newfound.data.images import Dataset
from newfound.engine.checkpoint import Checkpoint
from newfound.engine.files import check_writable
from newfound.experiment import Folder, Source, Stopped
from newfound.experiment.discovery import discovered
from newfound.experiment.same_images import check_images


@dataclass(frozen=True)
class Job:
    """A run to be made, or to be found in its folder."""

    label: str
    folder: Folder
    recipe: Recipe


def check_jobs(jobs: Sequence[Job]) -> None:
    """Refuse what can be known to be wrong before any image is read."""
    for job in jobs:
        check_code(job.folder, job.recipe.method)
        if not job.folder.results.exists():
            check_writable(job.folder.config)


def results_of_all(
    console: Console, source: Source, dataset: Dataset, jobs: Sequence[Job], stop_at: float | None
) -> list[dict[str, Any] | None]:
    """The results of each job, which were checked; None where its run failed, which is said."""
    if finished := [job.folder.path.name for job in jobs if job.folder.results.exists()]:
        place = jobs[0].folder.path.parent
        console.print(f"reused from {place}: {shortened(finished)}; delete a folder there to train it anew")
    found: list[dict[str, Any] | None] = []
    with EpochProgress(console) as progress, Stopping(stop_at, progress.say) as stopping:
        for job in jobs:
            gc.collect()  # what the job before has trained is part of a cycle, which holds a GPU's memory
            progress.label = f"{job.label}: "
            try:
                results = _results_of(job.folder, source, dataset, job.recipe, progress, stopping)
                for warning in results["warnings"]:
                    progress.say(f"warning: {warning}")
                found.append(results)
            except RunError as error:
                progress.say(f"failed: {error}")
                found.append(None)
            except Stopped:
                stopping.end(f"stopped at a checkpoint; {REPEAT}")
    return found


def check_code(folder: Folder, method: str) -> None:
    """Refuse a run of other code: its numbers would pass for those of the present one."""
    if folder.has_other_code():
        raise UsageError(
            f"a run that is reused must be of the method's present code; the code of {method} has "
            f"changed since {folder.path} began; delete that folder to train it anew"
        )


def _results_of(
    folder: Folder,
    source: Source,
    dataset: Dataset,
    recipe: Recipe,
    progress: EpochProgress,
    stopping: Stopping,
) -> dict[str, Any]:
    """The results of one run: those in its folder, or of a run that goes on there."""
    if folder.results.exists():
        check_images(Checkpoint.load(folder.checkpoint), folder, dataset)
        return folder.read_results()
    # Folders of runs lie two deep: what differs in the one above them can still share weights.
    cache = folder.path.parent.parent / "pretrained"
    results, _ = discovered(
        folder,
        source,
        dataset,
        recipe,
        cache,
        resume=True,
        watch=progress,
        say=progress.say,
        should_stop=stopping,
    )
    return results
