"""The verb that says how many novel classes there are."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Literal

import typer

from newfound.cli.estimating import run_estimate
from newfound.cli.options import (
    Data,
    DataDir,
    Labelled,
    Resume,
    Size,
    StopAfter,
    Strict,
    Subset,
    Unlabelled,
    method_and_settings,
)
from newfound.cli.output import output, show_images
from newfound.engine.files import check_writable
from newfound.estimate.config import PREFIX, EstimateConfig
from newfound.experiment import Source
from newfound.experiment.question import USUAL, Question, load_unnumbered

EPILOG = "Its own settings: " + "; ".join(
    f"{PREFIX}{each.name}={each.default} ({each.metadata['meaning']})" for each in fields(EstimateConfig)
)


def estimate(
    method: Annotated[
        str, typer.Argument(help="The method whose pretraining the features come from.")
    ] = USUAL,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            help="Settings as key=value, for example pretrain.epochs=20 encoder=small estimate.max_novel=30."
        ),
    ] = None,
    *,
    data: Data = None,
    data_dir: DataDir = None,
    subset: Subset = None,
    labelled: Labelled = None,
    unlabelled: Unlabelled = None,
    size: Size = None,
    strict: Strict = False,
    algorithm: Annotated[
        Literal["dtc", "gcd"] | None,
        typer.Option(help="DTC's algorithm, or GCD's; by default DTC's where it can be used."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder; by default runs/DATA-estimate.")] = None,
    resume: Resume = False,
    stop_after: StopAfter = None,
) -> None:
    """Estimate how many novel classes there are: a curve, a number and its range."""
    source = Source(data, data_dir, subset, labelled, unlabelled, None, size, strict)
    method, overrides = method_and_settings(method, settings)
    if algorithm is not None:
        overrides[f"{PREFIX}algorithm"] = algorithm
    question = Question.of(source, method, overrides)
    where = out or Path("runs") / f"{source.name}-estimate"
    check_writable(where / "estimate.json")
    console = output()
    dataset = load_unnumbered(source, console.print)
    show_images(console, dataset)
    if data is not None:
        console.print("the number of novel classes of a benchmark is known; the estimate does not look at it")
    if line := question.idle_line(overrides):
        console.print(line)
    run_estimate(console, question, dataset.split, where, where.parent / "pretrained", resume, stop_after)
