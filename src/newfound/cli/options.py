"""Arguments and options that several verbs have."""

from pathlib import Path
from typing import Annotated

import typer

from newfound.cli.stopping import time_after
from newfound.core.config import parse_overrides
from newfound.experiment.question import USUAL

RunFolder = Annotated[Path, typer.Argument(help="The folder of a run.")]
Method = Annotated[str, typer.Argument(help="A method; `newfound methods` lists them.")]
Settings = Annotated[
    list[str] | None,
    typer.Argument(help="Settings as key=value, for example epochs=50 pretrain.epochs=20 alpha=0.1."),
]
Data = Annotated[str | None, typer.Option("--data", help="A named benchmark; `newfound data` lists them.")]
DataDir = Annotated[str | None, typer.Option(help="Where the benchmark's official files are.")]
MovedDataDir = Annotated[str | None, typer.Option(help="Where the benchmark's files are now, if they moved.")]
Subset = Annotated[int | None, typer.Option(min=1, help="Keep this many images of each class.")]
Labelled = Annotated[
    str | None, typer.Option(help="Your labelled images: a folder for each class, or a CSV.")
]
Unlabelled = Annotated[str | None, typer.Option(help="Your unlabelled images: a folder, a CSV or a list.")]
NumNovel = Annotated[
    str | None,
    typer.Option(help="How many new classes to find in your images; auto, the default, estimates it."),
]
Size = Annotated[int | None, typer.Option(help="Side in pixels that your images are resized to.")]
Strict = Annotated[bool, typer.Option("--strict", help="Fail on the first file that cannot be decoded.")]
Out = Annotated[Path | None, typer.Option(help="The run folder; by default runs/DATA-METHOD.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")]
StopAfter = Annotated[
    float | None,
    typer.Option(
        parser=time_after,
        metavar="TIME",
        help="End at a checkpoint after this time, for example 9m, to go on later.",
    ),
]
"""When that is: one end for all that a call runs."""


def method_and_settings(method: str, settings: list[str] | None) -> tuple[str, dict[str, str]]:
    """The two where METHOD may be left out: a first word that is a setting is no method."""
    words = settings or []
    return (USUAL, parse_overrides([method, *words])) if "=" in method else (method, parse_overrides(words))
