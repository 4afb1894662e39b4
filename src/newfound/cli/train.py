"""The verbs that train: pretrain and discover."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from newfound.cli.estimating import run_estimate
from newfound.cli.options import (
    Data,
    DataDir,
    Labelled,
    Method,
    NumNovel,
    Out,
    Resume,
    Settings,
    Size,
    StopAfter,
    Strict,
    Subset,
    Unlabelled,
    method_and_settings,
)
from newfound.cli.output import output, show_images, show_warnings
from newfound.cli.progress import EpochProgress, advice_for
from newfound.cli.stopping import RESUME, Stopping
from newfound.core.config import Overrides, Recipe
from newfound.core.errors import UsageError
from newfound.core.registry import recipe_for
from newfound.data.images import Dataset
from newfound.engine.files import check_writable
from newfound.estimate.config import split_settings
from newfound.experiment import Folder, Run, Source, Stopped
from newfound.experiment.check import check_run, check_start
from newfound.experiment.finish import finish
from newfound.experiment.idle import idle_line
from newfound.experiment.question import USUAL, Question, load_unnumbered, unnumbered
from newfound.experiment.source import looking_for
from newfound.report.page import write_page
from newfound.report.tables import Row, results_table
from newfound.review.review import Review

AUTO = "auto"
"""What --num-novel is where it is to be estimated."""


def pretrain(
    method: Method = USUAL,
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="Settings as key=value, for example pretrain.epochs=20 encoder=small."),
    ] = None,
    *,
    data: Data = None,
    data_dir: DataDir = None,
    subset: Subset = None,
    labelled: Labelled = None,
    unlabelled: Unlabelled = None,
    num_novel: NumNovel = None,
    size: Size = None,
    strict: Strict = False,
    out: Out = None,
    resume: Resume = False,
    stop_after: StopAfter = None,
) -> None:
    """Train what a method starts from, and keep it for every run that needs the same."""
    source = Source(data, data_dir, subset, labelled, unlabelled, _given(num_novel), size, strict)
    method, overrides = method_and_settings(method, settings)
    where = out or Path("runs") / f"pretrain-{source.name}-{method}"
    chain = run_estimated_chain if _is_auto(num_novel, source) else run_chain
    chain(method, overrides, source, where, resume, stop_after, only_pretrain=True)


def discover(
    method: Method = USUAL,
    settings: Settings = None,
    *,
    data: Data = None,
    data_dir: DataDir = None,
    subset: Subset = None,
    labelled: Labelled = None,
    unlabelled: Unlabelled = None,
    num_novel: NumNovel = None,
    size: Size = None,
    strict: Strict = False,
    out: Out = None,
    pretrained: Annotated[
        Path | None,
        typer.Option(help="Start from this checkpoint: ours, or of the UNO and IIC codes."),
    ] = None,
    resume: Resume = False,
    stop_after: StopAfter = None,
) -> None:
    """Find the novel classes: pretrain if needed, discover, write results.json and assignments.csv."""
    source = Source(data, data_dir, subset, labelled, unlabelled, _given(num_novel), size, strict)
    method, overrides = method_and_settings(method, settings)
    if pretrained is not None:
        overrides["pretrained"] = str(pretrained)
    where = out or Path("runs") / f"{source.name}-{method}"
    chain = run_estimated_chain if _is_auto(num_novel, source) else run_chain
    chain(method, overrides, source, where, resume, stop_after)


def _given(num_novel: str | None) -> int | None:
    """What --num-novel says, if it is a number."""
    if num_novel is None or num_novel == AUTO:
        return None
    try:
        return int(num_novel)
    except ValueError:
        raise UsageError(
            f"--num-novel must be an integer, or {AUTO}; got {num_novel!r}; for example --num-novel 7"
        ) from None


def _is_auto(num_novel: str | None, source: Source) -> bool:
    """Whether the number is to be estimated: when asked for, and where own images come without one."""
    own = source.benchmark is None and source.labelled is not None and source.unlabelled is not None
    return num_novel == AUTO or (num_novel is None and own)


def run_estimated_chain(
    method: str,
    overrides: Overrides,
    source: Source,
    out: Path,
    resume: bool,
    stop_at: float | None,
    *,
    only_pretrain: bool = False,
) -> None:
    """Estimate the number of novel classes first; the images are read once for both."""
    question, (_, settings) = Question.of(source, method, overrides), split_settings(overrides)
    recipe = recipe_for(method, source.name, settings)
    if not resume:
        Folder(out).check(source, recipe, resume)
    _check_estimated(Folder(out))
    _check_places(out)
    console = output()
    dataset = load_unnumbered(source, console.print)
    split = dataset.split
    check_start(recipe)
    check_run(replace(recipe, run=question.recipe.run), unnumbered(split))
    show_images(console, dataset)
    _show_idle(console, recipe, settings, only_pretrain)
    found = run_estimate(console, question, split, out / "estimate", _cache(out), resume, stop_at)
    dataset, source = looking_for(found["num_novel"], dataset), source.estimated_by(found)
    run_chain(method, settings, source, out, resume, stop_at, dataset=dataset, only_pretrain=only_pretrain)


def _show_idle(console: Console, recipe: Recipe, settings: Overrides, only_pretrain: bool) -> None:
    """Name the settings of discovery where there will be none."""
    if only_pretrain and (line := idle_line(recipe, recipe.pretraining, settings)):
        console.print(line)


def _check_estimated(folder: Folder) -> None:
    """Refuse to estimate for a run that was given a number."""
    if folder.config.exists() and (begun := folder.source()).estimated is None:
        given = "without --num-novel" if begun.num_novel is None else f"with --num-novel {begun.num_novel}"
        raise UsageError(
            f"a run must go on as it was started; {folder.path} was begun {given}, and got an estimate; "
            "repeat what it was begun with, or choose another --out"
        )


def _check_places(out: Path) -> None:
    """Refuse a run folder that cannot be written before any image is read."""
    check_writable(Folder(out).config)
    check_writable(_cache(out) / "weights")


def _cache(out: Path) -> Path:
    """Where runs beside `out` share what was pretrained."""
    return out.parent / "pretrained"


def run_chain(
    method: str,
    overrides: Overrides,
    source: Source,
    out: Path,
    resume: bool,
    stop_at: float | None,
    *,
    dataset: Dataset | None = None,
    only_pretrain: bool = False,
    go_on: str = RESUME,
) -> None:
    """Check everything that can be known, then train, resumably, and show the results.

    The images of `source` may be at hand as `dataset`, of which all was shown but the number to be found.
    """
    console, folder, cache = output(), Folder(out), _cache(out)
    recipe = recipe_for(method, source.name, overrides)
    folder.check(source, recipe, resume)
    _check_places(out)
    shown, dataset = dataset is not None, dataset or source.load(console.print)
    check_run(recipe, dataset.split)
    if shown:
        console.print(dataset.note)
    else:
        show_images(console, dataset)
        _show_idle(console, recipe, overrides, only_pretrain)
    if resume and not folder.config.exists():
        console.print(f"nothing to resume in {out}: starting there")
    folder.open(source, recipe, resume)
    progress = EpochProgress(console, advice=advice_for(recipe, dataset.split.look))
    with progress, Stopping(stop_at, progress.say, go_on) as stopping:
        run = Run(folder, dataset, recipe, watch=progress, say=progress.say, should_stop=stopping)
        try:
            if only_pretrain:
                run.pretrain(cache)
                progress.say(f"pretrained: weights are in {cache}; every run beside {out} finds them there")
                return
            trained = run.discover(cache)
        except Stopped:
            stopping.end(f"stopped at a checkpoint in {out}; {go_on}")
    results, pile = finish(run, trained)
    show_results(console, results, out)
    if not source.truth_is_known:
        write_page(Review.open(out), pile)
        console.print(f"to look at what was found, open {folder.report}")


def show_results(console: Console, results: dict[str, Any], out: Path) -> None:
    """The table of one run, its warnings, and where its files are."""
    if "task_aware" in results:
        seconds = sum(stage["seconds"] for stage in results["timing"].values())
        row = Row(results["method"], results, seconds)
        console.print(
            results_table([row], title=f"{results['benchmark']}, {results['recipe']} settings, one run")
        )
    sizes = ", ".join(map(str, results["cluster_sizes"]))
    console.print(f"images in each novel class: {sizes}")
    show_warnings(console, results["warnings"])
    console.print(f"written: {out}/results.json, {out}/assignments.csv")
