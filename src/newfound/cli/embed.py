"""The verb that embeds images."""

from pathlib import Path
from typing import Annotated

import typer

from newfound.cli.console import console, show_left_out
from newfound.cli.options import Strict
from newfound.data.dataset import counted
from newfound.run.embed import embed as embed_files


def embed(
    images: Annotated[Path, typer.Argument(help="The images: a folder, a CSV, a list or one file.")],
    *,
    encoder: Annotated[
        str, typer.Option(help="A pretrained encoder, for example lite0; `newfound encoders` lists them.")
    ],
    out: Annotated[Path, typer.Option(help="The folder of the Parquet files; images in it are skipped.")],
    views: Annotated[
        int,
        typer.Option(min=1, help="Vectors for each image: the second of its mirror image, then of crops."),
    ] = 1,
    strict: Strict = False,
) -> None:
    """Embed images with a pretrained encoder, for discover, estimate and calibrate --embeddings."""
    found = embed_files(images, encoder, out, views, strict)
    show_left_out(found.left_out)
    console().print(f"written: {out}, {counted(found.images, 'image')} embedded")
