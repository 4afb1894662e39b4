"""The verbs that use a finished run: predict, review, trust, relocate."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Column, Table

from newfound.api import predict as predict_images
from newfound.cli import options as opt
from newfound.cli.console import console, show_left_out
from newfound.cli.options import HoldOut, Labelled, MovedDataDir, RunFolder, StopAfter, Strict, Unlabelled
from newfound.cli.progress import Progress
from newfound.cli.signals import Stopping
from newfound.core.errors import UsageError
from newfound.core.files import check_apart, check_writable
from newfound.core.source import UNSORTED
from newfound.data.dataset import counted
from newfound.review.page import confidence_line, trust_lines
from newfound.review.predict import predict_parts
from newfound.review.review import Review
from newfound.review.server import Live, Server
from newfound.run.folder import Folder
from newfound.run.trained import Pictures
from newfound.run.trained import relocate as relocate_images
from newfound.run.trust import find_hidden


def predict(
    run: RunFolder,
    images: Annotated[
        str,
        typer.Argument(help="New images, as embed takes them, or embeddings: a folder or a file."),
    ],
    *,
    out: Annotated[
        str | None,
        typer.Option(
            help="The CSV to write, by default RUN/predictions.csv; or a folder, of Parquet files that are "
            "written part by part, as images without limit need it."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the CSV of an earlier call.")
    ] = False,
    strict: Strict = False,
    engine: opt.AnyEngine = "local",
    address: opt.Address = None,
    workers: opt.Workers = None,
) -> None:
    """Assign new images to the known and novel classes of a run."""
    if engine == "ray" or "://" in images or (out and ("://" in out or not Path(out).suffix)):
        place = out or str(run / "predictions")
        done = predict_parts(Review.open(run), images, place, strict, engine, address, workers)
        show_left_out(done.left_out)
        console().print(f"{place}: {counted(done.images, 'image')} sorted, {done.before:,} before")
        return
    folder, target = Folder(run), Path(out) if out else run / "predictions.csv"
    source = folder.request().source
    if target.exists() and not overwrite:
        raise UsageError(f"{target} already exists. Add --overwrite to replace it, or choose another --out.")
    check_writable(target)
    check_apart(target, source.labelled, source.unlabelled)
    found = predict_images(run, images, strict=strict)
    found.write(target)
    show_left_out(found.left_out)
    table = Table("class", Column("images", justify="right"), box=box.SIMPLE_HEAD)
    counts = Counter(found.classes)
    for name, number in sorted(counts.items(), key=lambda each: (each[0] == UNSORTED, -each[1], each[0])):
        table.add_row(name, f"{number:,}")
    console().print(table)
    console().print(f"written: {target}")


def review(
    run: RunFolder,
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 0,
    data_dir: MovedDataDir = None,
) -> None:
    """Correct the classes on a page in your browser: rename, merge, split, move images."""
    folder = Folder(run)
    server = Server(Live(folder, Pictures.load(folder, data_dir)), port)
    console().print(f"Open {server.address}")
    console().print("Edits are saved at once. Ctrl-C ends the server.")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        console().print(f"\nDone. `newfound classes {folder.quoted}` lists the classes.")
    finally:
        server.server_close()


def trust(
    run: RunFolder, *, hold_out: HoldOut = None, data_dir: MovedDataDir = None, stop_after: StopAfter = None
) -> None:
    """Measure how well hidden known classes are found again with the settings of a run."""
    folder = Folder(run)
    with Progress() as progress, Stopping(stop_after) as stopping:
        found = find_hidden(
            folder, hold_out, data_dir, watch=progress.labelled("trust"), should_stop=stopping
        )
    for line in (*trust_lines(found), confidence_line(folder.read_results(), found)):
        console().print(line)
    console().print(f"`newfound report {folder.quoted}` shows it on the page.")


def relocate(run: RunFolder, *, labelled: Labelled = None, unlabelled: Unlabelled = None) -> None:
    """Tell a run where its images are after they moved."""
    folder = Folder(run)
    relocate_images(folder, labelled, unlabelled)
    console().print(f"Updated the image paths of {run}. `newfound report {folder.quoted}` updates the page.")
