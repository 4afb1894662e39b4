"""Measured runs for results/: a published recipe, or a named variation of it, over seeds."""

import logging
from pathlib import Path

from newfound.core.errors import unknown
from newfound.core.files import check_writable, write_record
from newfound.core.registry import changes_nothing, method_entry, recipe_for
from newfound.core.settings import Overrides
from newfound.core.source import Source
from newfound.lab.batch import Job
from newfound.lab.paper import APPENDIX, ESTIMATES
from newfound.run.folder import Folder
from newfound.run.models import Results

log = logging.getLogger(__name__)
ESTIMATED = "estimated"
"""The recipe with the number of novel classes that the paper estimates."""


def variation(benchmark: str, method: str, recipe: str | None) -> tuple[str | None, Overrides]:
    """A named variation with its settings; the usual recipe, and one that changes nothing, has no name."""
    variations = method_entry(method).variations_for(benchmark)
    if benchmark in ESTIMATES:
        variations[ESTIMATED] = variations.get(APPENDIX, {})
    if recipe is None:
        return None, {}
    if recipe not in variations:
        raise unknown(f"recipe of {method} on {benchmark}", recipe, variations)
    if changes_nothing(method, benchmark, recipe):
        log.info("%s changes nothing for %s on %s: running the usual recipe.", recipe, method, benchmark)
        return None, {}
    return recipe, variations[recipe]


def reproduce_source(benchmark: str, recipe: str | None, data_dir: str | None) -> Source:
    """The images of a benchmark; `estimated` looks for the number of classes that the paper estimates."""
    if recipe != ESTIMATED:
        return Source(benchmark=benchmark, data_dir=data_dir)
    return Source(
        benchmark=benchmark, data_dir=data_dir, num_novel=ESTIMATES[benchmark], estimated="the paper's"
    )


def reproduce_jobs(
    benchmark: str,
    method: str,
    recipe: str | None,
    overrides: Overrides,
    seeds: list[int],
    out: Path,
    results: Path,
) -> dict[Path, Job]:
    """Record → the run that is missing for it."""
    jobs = {}
    for seed in seeds:
        name = f"{method}-{recipe}-seed{seed}" if recipe else f"{method}-seed{seed}"
        record = results / benchmark / f"{name}.json"
        if record.exists():
            log.info("already recorded: %s", record)
            continue
        check_writable(record)
        settings = recipe_for(method, benchmark, {**overrides, "seed": seed})
        jobs[record] = Job(f"seed {seed}", Folder(out / benchmark / name), settings)
    return jobs


def write_recorded(record: Path, found: Results, recipe: str | None, note: str | None) -> None:
    """Record the results of a run, under the name of its recipe."""
    changes = {"recipe": recipe or found.recipe} | ({"note": note} if note else {})
    write_record(record, found.model_copy(update=changes))
    log.info("recorded: %s", record)
