"""Arguments and options that several verbs share."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from newfound.cli.signals import time_after
from newfound.core.errors import UsageError
from newfound.core.source import Engine, PileKind, Source

AUTO = "auto"
"""The value of --num-novel that asks for an estimate."""

RunFolder = Annotated[Path, typer.Argument(help="The run folder.")]
Method = Annotated[str, typer.Argument(help="The method; `newfound methods` lists them.")]
AnyMethod = Annotated[
    str | None,
    typer.Argument(
        metavar="[METHOD]",
        help="The method; `newfound methods` lists them. By default centroids on vectors, iic on images, "
        "simgcd on mixed piles of images.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Argument(help="Settings as key=value, for example epochs=50 pretrain.epochs=20 alpha=0.1."),
]
Data = Annotated[str | None, typer.Option("--data", help="A benchmark; `newfound data` lists them.")]
DataDir = Annotated[str | None, typer.Option(help="The folder of the benchmark's official files.")]
MovedDataDir = Annotated[str | None, typer.Option(help="The folder of the benchmark's files, if they moved.")]
Subset = Annotated[int | None, typer.Option(min=1, help="Use at most this many images of each class.")]
Labelled = Annotated[
    str | None,
    typer.Option(
        help="Your labelled images: one folder for each class, a CSV, tar files, or a Hugging Face dataset, "
        "datasets:NAME:SPLIT."
    ),
]
Embeddings = Annotated[
    str | None,
    typer.Option(help="Vectors instead of images: Parquet, CSV or .npy. Those without a label are the pile."),
]
Unlabelled = Annotated[
    str | None,
    typer.Option(
        help="Your unlabelled images: a folder, a CSV, a list, tar files, part-{000..123}.tar, or a dataset."
    ),
]


def _number_or_auto(text: str) -> str:
    if text != AUTO and not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is neither a whole number nor {AUTO}")
    return text


NumNovel = Annotated[
    str | None,
    typer.Option(
        parser=_number_or_auto,
        metavar="INTEGER|auto",
        help="The number of novel classes; auto, the default for your own images, estimates it.",
    ),
]
Pile = Annotated[
    PileKind | None,
    typer.Option(
        help="mixed: unlabelled images may be of known classes; novel: none is. A benchmark has its own "
        "default; for your own images it is that of the method's paper, and mixed for centroids."
    ),
]
Size = Annotated[int | None, typer.Option(help="Resize the images to this many pixels per side.")]
Strict = Annotated[bool, typer.Option("--strict", help="Fail on the first file that cannot be decoded.")]
Out = Annotated[Path | None, typer.Option(help="The run folder; by default runs/DATA-METHOD, or runs/DATA.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")]
StopAfter = Annotated[
    float | None,
    typer.Option(
        parser=time_after,
        metavar="TIME",
        help="Stop at the first checkpoint after this time, for example 9m. You can continue later.",
    ),
]
"""The deadline by `time.monotonic`, one for everything that a command runs."""
AnyEngine = Annotated[Engine, typer.Option(help="local: on this machine; ray: on a Ray cluster.")]
Address = Annotated[
    str | None, typer.Option(help="The Ray cluster, for example auto; by default this machine.")
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes on the cluster; by default one per GPU or core.")
]
HoldOut = Annotated[
    int | None, typer.Option("--hold-out", help="How many known classes to hide; by default two fifths.")
]


def method_and_settings(
    method: str | None, settings: Sequence[str] | None
) -> tuple[str | None, dict[str, str]]:
    """The method and the settings. METHOD is optional: a first word with `=` is a setting."""
    words = list(settings or [])
    if method and "=" in method:
        return None, parse_overrides([method, *words])
    return method, parse_overrides(words)


def parse_overrides(arguments: Sequence[str]) -> dict[str, str]:
    """`["alpha=0.1", ...]` → `{"alpha": "0.1", ...}`; the values are checked when they are applied."""
    out: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not (key and equals) or key in out:
            raise UsageError(f"Settings are written as key=value, each key once; got {argument!r}.")
        out[key] = value
    return out


def number_of(num_novel: str | None) -> int | None:
    """The number of novel classes; None if it is to be estimated."""
    return None if num_novel in (None, AUTO) else int(num_novel)


def source_of(
    data: str | None,
    data_dir: str | None,
    subset: int | None,
    labelled: str | None,
    unlabelled: str | None,
    size: int | None,
    strict: bool,
    num_novel: str | None = None,
    embeddings: str | None = None,
    pile: PileKind | None = None,
) -> Source:
    """The images that the options name."""
    return Source(
        benchmark=data,
        data_dir=data_dir,
        subset=subset,
        labelled=labelled,
        unlabelled=unlabelled,
        size=size,
        strict=strict,
        num_novel=number_of(num_novel),
        embeddings=embeddings,
        pile=pile,
    )


def typed_command() -> str:
    """The command as it was typed, for the record of a run."""
    return shlex.join(["newfound", *sys.argv[1:]])
