"""The verbs of the lab: compare, calibrate, reproduce, tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from newfound.cli import options as opt
from newfound.cli.console import console, show_data
from newfound.cli.progress import Progress
from newfound.cli.results import show_results
from newfound.cli.signals import Stopping
from newfound.core.errors import UsageError
from newfound.core.files import check_new, check_writable, write_record
from newfound.core.source import Source
from newfound.data import load
from newfound.data.dataset import Dataset
from newfound.data.folders import usual_side
from newfound.data.holdout import hold_out as hold_out_classes
from newfound.lab import calibrate as calibration
from newfound.lab.batch import Batch, reproduce_jobs, reproduce_source, variation
from newfound.lab.compare import compare_jobs, compare_records, place_of, terminal_table, write_comparison
from newfound.lab.recorded import load_records
from newfound.lab.tables import tables_section
from newfound.run.frozen import load_data
from newfound.run.start import start

Seeds = Annotated[int, typer.Option(min=1, help="The number of seeds, counted from 0.")]


@contextmanager
def _batch(data: Dataset, stop_after: float | None) -> Iterator[Batch]:
    """A batch of runs that shows its progress; repeating the command continues it."""
    show_data(data)
    with Progress() as progress, Stopping(stop_after) as stopping:
        yield Batch(data, opt.typed_command(), progress.labelled, stopping)


def compare(
    methods: Annotated[list[str], typer.Argument(help="Methods, or all; `newfound methods` lists them.")],
    *,
    data: Annotated[str, typer.Option("--data", help="A benchmark; `newfound data` lists them.")],
    seeds: Seeds = 1,
    track: Annotated[
        Literal["published", "matched"],
        typer.Option(help="published: as each paper trains; matched: all alike but for the objective."),
    ] = "published",
    data_dir: opt.DataDir = None,
    subset: opt.Subset = None,
    stop_after: opt.StopAfter = None,
    out: Annotated[Path, typer.Option(help="The folder of the runs and tables.")] = Path("runs/compare"),
) -> None:
    """Run methods on a benchmark and compare them in one table, also as CSV, Markdown and LaTeX."""
    source = Source(benchmark=data, data_dir=data_dir, subset=subset)
    jobs = compare_jobs(methods, seeds, source, track, out)
    check_writable(place_of(source, track, out) / "comparison.csv")
    with _batch(load(source), stop_after) as batch:
        finished = [results for results in batch.results(jobs) if results is not None]
    if finished:
        console().print(terminal_table(compare_records(finished, source, track)))
        paths = write_comparison(source, track, out)
        console().print(f"written, with every finished run in that folder: {', '.join(map(str, paths))}")
    batch.check_finished()


def calibrate(
    method: opt.Method,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            help="Settings as key=value, with commas between values to try: tau=0.1,0.2 epochs=50."
        ),
    ] = None,
    *,
    data: opt.Data = None,
    data_dir: opt.DataDir = None,
    subset: opt.Subset = None,
    labelled: opt.Labelled = None,
    unlabelled: opt.Unlabelled = None,
    embeddings: opt.Embeddings = None,
    pile: opt.Pile = None,
    size: opt.Size = None,
    strict: opt.Strict = False,
    hold_out: opt.HoldOut = None,
    seeds: Seeds = 3,
    stop_after: opt.StopAfter = None,
    out: Annotated[Path, typer.Option(help="The folder of the runs.")] = Path("runs/calibrate"),
    record: Annotated[Path | None, typer.Option(help="A JSON file for the record.")] = None,
) -> None:
    """Choose settings without novel labels: try them on known classes held out as if novel."""
    source = opt.source_of(
        data, data_dir, subset, labelled, unlabelled, size, strict, embeddings=embeddings, pile=pile
    )
    words = opt.parse_overrides(settings or [])
    tried = {key: value for key, value in words.items() if "," in value}
    if not tried.keys() & {"encoder", "trains"}:
        fixed = {key: value for key, value in words.items() if key not in tried}
        begin = start(source, method, fixed, lambda: usual_side(source))
        source, words = begin.source, {**begin.settings, **tried}
    base, candidates = calibration.candidates_of(method, source.name, words, seeds)
    if record is not None:
        check_new(record)
    jobs = calibration.jobs_of(candidates, out / source.name / method)
    check_writable(jobs[0].folder.config)
    # The number of novel classes only decides how many unlabelled images are read; they are dropped.
    number = None if source.benchmark else 1
    source = source.model_copy(update={"num_novel": number})
    images = hold_out_classes(load_data(source, jobs[0].folder.cache, base.run.device), hold_out)
    with _batch(images, stop_after) as batch:
        results = list(batch.results(jobs))
    found = calibration.record_of(base, images, candidates, results)
    console().print(calibration.table_of(found))
    if record is not None:
        write_record(record, found)
        console().print(f"written: {record}")


def _integers(text: str) -> str:
    """Normalise `0,1,2`; a ValueError for anything else."""
    return ",".join(str(int(part)) for part in text.split(","))


def reproduce(
    benchmark: Annotated[str, typer.Argument(help="A benchmark; `newfound data` lists them.")],
    method: opt.Method,
    *,
    recipe: Annotated[str | None, typer.Option(help="A named variation, for example inter-only.")] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Use vectors by this frozen encoder, for example lite0.")
    ] = None,
    seeds: Annotated[str, typer.Option(parser=_integers, help="Seeds, separated by commas.")] = "0",
    data_dir: opt.DataDir = None,
    stop_after: opt.StopAfter = None,
    out: Annotated[Path, typer.Option(help="The folder of the runs.")] = Path("runs/reproduce"),
    results: Annotated[Path, typer.Option(help="The folder of the records.")] = Path("results"),
    note: Annotated[
        str | None, typer.Option(help="A remark for the record, for example that the GPU was shared.")
    ] = None,
) -> None:
    """Run a published recipe, continuing what was interrupted, and record it under results/."""
    recipe, overrides = variation(benchmark, method, recipe)
    numbers = [int(part) for part in seeds.split(",")]
    source = reproduce_source(benchmark, recipe, data_dir, encoder)
    jobs = reproduce_jobs(source, method, recipe, overrides, numbers, out, results)
    if not jobs:
        return
    cache = next(iter(jobs.values())).folder.cache
    with _batch(load_data(source, cache), stop_after) as batch:
        for record, found in zip(jobs, batch.results(list(jobs.values())), strict=True):
            if found is not None:
                show_results(found)
                named = {"recipe": recipe or found.recipe, "note": note or found.note}
                write_record(record, found.model_copy(update=named))
                console().print(f"recorded: {record}")
    batch.check_finished()


def tables(
    results: Annotated[Path, typer.Option(help="The folder of the recorded runs.")] = Path("results"),
) -> None:
    """Print the paper's tables: our mean ± std (n) beside the published value in brackets."""
    records = load_records(results)
    if not records:
        raise UsageError(f"There are no recorded runs in {results}. Use --results for another folder.")
    print(tables_section(records))
