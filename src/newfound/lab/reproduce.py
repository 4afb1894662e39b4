"""Measured runs for results/: a published recipe, or a named variation of it, over seeds."""

import logging
from pathlib import Path

from newfound.core.errors import Hint, UsageError, unknown
from newfound.core.files import check_writable, write_record
from newfound.core.registry import changes_nothing, method_entry, recipe_for
from newfound.core.settings import Overrides
from newfound.core.source import Source
from newfound.lab.batch import Job
from newfound.lab.paper import APPENDIX, ESTIMATES
from newfound.nn.encoders import preprocessing_of
from newfound.run.folder import Folder
from newfound.run.frozen import version_of
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


def reproduce_source(
    benchmark: str, recipe: str | None, data_dir: str | None, encoder: str | None = None
) -> Source:
    """The images of a benchmark, or their vectors by a frozen encoder.

    `estimated` looks for the number of classes that the paper estimates.
    """
    source = Source(benchmark=benchmark, data_dir=data_dir)
    if encoder is not None:
        if preprocessing_of(encoder) is None:
            raise UsageError(f"The encoder {encoder} is not pretrained.", Hint.ENCODERS)
        source = source.model_copy(update={"embedded_by": version_of(encoder)[1]})
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
    """Record → the run that is missing for it; those on vectors have a folder of their own."""
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


def write_recorded(record: Path, found: Results, recipe: str | None, note: str | None) -> None:
    """Record the results of a run, under the name of its recipe."""
    changes = {"recipe": recipe or found.recipe} | ({"note": note} if note else {})
    write_record(record, found.model_copy(update=changes))
    log.info("recorded: %s", record)
