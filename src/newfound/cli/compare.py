"""Several methods on one benchmark, in one table."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from newfound.cli.output import output
from newfound.cli.progress import EpochProgress
from newfound.cli.stopping import Stopping, duration
from newfound.cli.train import DataDir, StopAfter, Subset
from newfound.core.config import Recipe
from newfound.core.errors import RunError, UsageError
from newfound.core.registry import method_names, recipe_for
from newfound.data.images import Dataset
from newfound.engine.files import write_text
from newfound.experiment import Folder, Run, Source, Stopped
from newfound.experiment.check import check_run
from newfound.experiment.finish import finish
from newfound.report.comparison import FORMATS, compare_records, terminal_table


def compare(
    methods: Annotated[list[str], typer.Argument(help="Methods, or all; `newfound methods` lists them.")],
    *,
    data: Annotated[str, typer.Option("--data", help="A named benchmark; `newfound data` lists them.")],
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0 on.")] = 1,
    track: Annotated[
        str, typer.Option(help="published: as each paper trains; matched: alike but for the objective.")
    ] = "published",
    data_dir: DataDir = None,
    subset: Subset = None,
    stop_after: StopAfter = None,
    out: Annotated[Path, typer.Option(help="Where runs and tables are kept.")] = Path("runs/compare"),
) -> None:
    """Run what is missing, sharing pretraining, and print one table; also as CSV, Markdown and LaTeX."""
    console, source = output(), Source(benchmark=data, data_dir=data_dir, subset=subset)
    limit = None if stop_after is None else duration(stop_after)
    names = method_names() if methods == ["all"] else list(dict.fromkeys(methods))
    recipes = [recipe_for(name, data, {"seed": s, "track": track}) for name in names for s in range(seeds)]
    place = out / data / track
    dataset = source.load()
    console.print(dataset.note)
    for recipe in recipes:
        _folder(place, recipe).check(source, recipe, resume=True)
        check_run(recipe, dataset.split)
    with EpochProgress(console) as progress, Stopping(limit, progress.say) as stopping:
        records, failed = [], []
        for recipe in recipes:
            progress.label = f"{recipe.method} seed {recipe.run.seed}: "
            try:
                records.append(_record(_folder(place, recipe), source, dataset, recipe, progress, stopping))
            except RunError as error:
                progress.say(f"failed: {error}")
                failed.append(f"{recipe.method} seed {recipe.run.seed}")
            except Stopped:
                progress.say("stopped at a checkpoint; repeat the same call to go on")
                raise typer.Exit(1 if stopping.interrupted else 0) from None
    _show(console, records, place, data, track)
    if failed:
        raise RunError(f"every method must finish; these failed: {', '.join(failed)}; see above for each")


def _folder(place: Path, recipe: Recipe) -> Folder:
    return Folder(place / f"{recipe.method}-seed{recipe.run.seed}")


def _record(
    folder: Folder,
    source: Source,
    dataset: Dataset,
    recipe: Recipe,
    progress: EpochProgress,
    stopping: Stopping,
) -> dict[str, Any]:
    """The results of one run: those in its folder, or of a run that goes on there."""
    if folder.results.exists():
        found: dict[str, Any] = json.loads(folder.results.read_text(encoding="utf-8"))
        return found
    folder.open(source, recipe, resume=True)
    run = Run(folder, dataset, recipe, watch=progress, say=progress.say, should_stop=stopping)
    # Both tracks of a benchmark find each other's weights here.
    return finish(run, run.discover(folder.path.parent.parent / "pretrained"))


def _show(console: Console, records: list[dict[str, Any]], place: Path, data: str, track: str) -> None:
    if not records:
        return
    if "task_aware" not in records[0]:
        raise UsageError(f"a comparison needs a benchmark whose classes are known; got {data}; try digits")
    subset = records[0]["subset"]
    what = data if subset is None else f"{data}, at most {subset} images of each class"
    comparison = compare_records(records, data, track, what)
    console.print(terminal_table(comparison))
    for suffix, written in FORMATS.items():
        write_text(place / f"comparison.{suffix}", written(comparison))
    console.print(f"written: {place}/comparison.{{{','.join(FORMATS)}}}")
