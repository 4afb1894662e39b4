"""Settings chosen without a novel label: tried on known classes that play the novel ones."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from newfound.cli.options import Data, DataDir, Labelled, Method, Size, StopAfter, Strict, Subset, Unlabelled
from newfound.cli.output import output, show_images
from newfound.cli.running import Job, check_jobs, results_of_all
from newfound.core.config import parse_overrides
from newfound.data.holdout import hold_out, usual_held_out
from newfound.engine.files import write_json
from newfound.experiment import Folder, Source
from newfound.experiment.calibration import Candidate, candidates_of
from newfound.experiment.calibration_record import calibration_record, check_replaceable
from newfound.experiment.check import check_run
from newfound.report.recorded import Measured


def calibrate(
    method: Method,
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="Settings as key=value; commas part values to try: tau=0.1,0.2 epochs=50."),
    ] = None,
    *,
    data: Data = None,
    data_dir: DataDir = None,
    subset: Subset = None,
    labelled: Labelled = None,
    unlabelled: Unlabelled = None,
    size: Size = None,
    strict: Strict = False,
    held_out: Annotated[
        int | None,
        typer.Option("--hold-out", help="How many known classes play the novel ones; else two fifths."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0 on.")] = 3,
    stop_after: StopAfter = None,
    out: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/calibrate"),
    record: Annotated[Path | None, typer.Option(help="A JSON file for what was tried and found.")] = None,
) -> None:
    """Try settings on known classes held out as if they were novel, whose labels may be used to judge."""
    console, source = output(), Source(data, data_dir, subset, labelled, unlabelled, None, size, strict)
    base, candidates = candidates_of(method, source.name, parse_overrides(settings or []), seeds)
    if record is not None:
        check_replaceable(record, method, candidates)
    jobs = [job for each in candidates for job in _jobs(each, out / source.name / method)]
    check_jobs(jobs)
    whole = source.before_hold_out(console.print)
    number = usual_held_out(whole.split.task.num_known) if held_out is None else held_out
    dataset, source = hold_out(whole, number), replace(source, held_out=number)
    show_images(console, dataset)
    for job in jobs:
        job.folder.check(source, job.recipe, resume=True)
    for candidate in candidates:
        check_run(candidate.recipes[0], dataset.split)
    results = results_of_all(console, source, dataset, jobs, stop_after)
    found = calibration_record(base, source, dataset, candidates, results)
    console.print(_table(found))
    if record is not None:
        write_json(record, found)
        console.print(f"written: {record}")


def _jobs(candidate: Candidate, place: Path) -> list[Job]:
    """The runs of a candidate, each in a folder of its own; a path in its name does not make more of them."""
    folder = candidate.name.replace("/", "_")
    return [
        Job(f"{candidate.name} seed {seed}", Folder(place / f"{folder}-seed{seed}"), recipe)
        for seed, recipe in enumerate(candidate.recipes)
    ]


def _table(found: Mapping[str, Any]) -> Table:
    """A row for each candidate, as given, with what can be said of its place."""
    what, seeds = found["benchmark"], len(found["seeds"])
    if found["subset"] is not None:
        what += f", at most {found['subset']} images of each class"
    title = (
        f"{found['method']} on {what}; known classes {', '.join(found['held_out'])} held out as if novel; "
        "task-aware ACC in % on their unlabelled training images, mean ± std over n seeds; "
        "seconds of discovery"
    )
    table = Table(*found["chosen"], title=title, box=box.SIMPLE_HEAD)
    highest = next(each for each in found["candidates"] if each["settings"] == found["chosen"])
    for heading in ("task-aware ACC", "seconds", ""):
        table.add_column(heading, justify="right")
    for each in found["candidates"]:
        acc, seconds = "failed", "" if each["seconds"] is None else f"{each['seconds']:.1f}"
        if each["mean"] is not None:
            std = None if each["std"] is None else 100 * each["std"]
            acc = str(Measured(100 * each["mean"], std, seeds))
        table.add_row(*map(str, each["settings"].values()), acc, seconds, place(each, highest))
    return table


def place(each: Mapping[str, Any], highest: Mapping[str, Any]) -> str:
    """Whether a candidate has the highest mean, or may: its mean is off by less than the seeds spread."""
    if each["mean"] is None:
        return ""
    if each["mean"] == highest["mean"]:
        return "highest"
    if each["std"] is None:
        return "one seed cannot tell"
    near = highest["mean"] - each["mean"] < max(highest["std"], each["std"])
    return "not told apart" if near else ""
