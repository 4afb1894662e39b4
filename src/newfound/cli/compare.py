"""Several methods on one benchmark, in one table."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from newfound.cli.options import DataDir, StopAfter, Subset
from newfound.cli.output import output
from newfound.cli.running import Job, check_jobs, results_of_all
from newfound.core.errors import RunError, UsageError
from newfound.core.registry import method_names, recipe_for, with_defaults
from newfound.engine.files import write_text
from newfound.experiment import Folder, Source
from newfound.experiment.check import check_run
from newfound.report.comparison import FORMATS, Comparison, compare_records, terminal_table

Record = dict[str, Any]


def compare(
    methods: Annotated[list[str], typer.Argument(help="Methods, or all; `newfound methods` lists them.")],
    *,
    data: Annotated[str, typer.Option("--data", help="A named benchmark; `newfound data` lists them.")],
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0 on.")] = 1,
    track: Annotated[
        str,
        typer.Option(
            help="published: as each paper trains, our settings where it has none; "
            "matched: alike but for the objective."
        ),
    ] = "published",
    data_dir: DataDir = None,
    subset: Subset = None,
    stop_after: StopAfter = None,
    out: Annotated[Path, typer.Option(help="Where runs and tables are kept.")] = Path("runs/compare"),
) -> None:
    """Run what is missing, sharing pretraining, and print one table; also as CSV, Markdown and LaTeX."""
    console, source = output(), Source(benchmark=data, data_dir=data_dir, subset=subset)
    place = out / (data if subset is None else f"{data}-{subset}-of-each") / track
    jobs = [_job(place, name, seed, data, track) for name in _names(methods) for seed in range(seeds)]
    check_jobs(jobs)
    dataset = source.load()
    console.print(dataset.note)
    for job in jobs:
        job.folder.check(source, job.recipe, resume=True)
        check_run(job.recipe, dataset.split)
    results = results_of_all(console, source, dataset, jobs, stop_after)
    records = [result for result in results if result is not None]
    if records:
        _show(console, records, place, source, track)
    failed = [job.label for job, result in zip(jobs, results, strict=True) if result is None]
    if failed:
        raise RunError(f"every method must finish; these failed: {', '.join(failed)}; see above for each")


def _names(methods: list[str]) -> list[str]:
    """The methods that are asked for, each once."""
    settings = [word for word in methods if "=" in word]
    if settings:
        raise UsageError(
            f"a comparison trains every method with its own settings; got {' '.join(settings)}; "
            "leave that out, or try newfound discover, which takes settings"
        )
    return method_names() if methods == ["all"] else list(dict.fromkeys(methods))


def _job(place: Path, name: str, seed: int, data: str, track: str) -> Job:
    recipe = recipe_for(name, data, {"seed": seed, "track": track})
    return Job(f"{name} seed {seed}", Folder(place / f"{name}-seed{seed}"), recipe)


def _show(console: Console, records: list[Record], place: Path, source: Source, track: str) -> None:
    """Print what was asked for; the files hold every run of the folder."""
    console.print(terminal_table(_comparison(records, source, track)))
    every = _comparison(_finished(place, source, track), source, track)
    for suffix, written in FORMATS.items():
        write_text(place / f"comparison.{suffix}", written(every))
    console.print(f"written: {place}/comparison.{{{','.join(FORMATS)}}}, all runs of that folder")


def _comparison(records: list[Record], source: Source, track: str) -> Comparison:
    few = "" if source.subset is None else f", at most {source.subset} images of each class"
    return compare_records(records, source.name, track, source.name + few)


def _finished(place: Path, source: Source, track: str) -> list[Record]:
    """The results of every run in the folder that a comparison makes of these images, by method and seed."""
    folders = [Folder(path.parent) for path in place.glob("*-seed*/results.json")]
    found = [(folder, folder.read_results()) for folder in folders]
    same = [run for folder, run in found if _is_of(run, source, track) and not folder.has_other_code()]
    return sorted(same, key=lambda record: (record["method"], record["seed"]))


def _is_of(record: Record, source: Source, track: str) -> bool:
    if record["method"] not in method_names():
        return False
    recipe = recipe_for(record["method"], source.name, {"seed": record["seed"], "track": track})
    config = with_defaults(record["method"], record["config"])
    return (record["benchmark"], record["subset"], config) == (source.name, source.subset, recipe.flat())
