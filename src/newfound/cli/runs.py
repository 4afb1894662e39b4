"""The verbs that use a finished run: predict, review, report, trust, relocate."""

from collections import Counter
from dataclasses import replace
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
from newfound.cli.results import evaluation_tables
from newfound.cli.signals import Stopping
from newfound.core.errors import UsageError
from newfound.core.files import check_apart, check_writable
from newfound.core.source import UNSORTED
from newfound.data.dataset import counted
from newfound.report.figures import CURVES, check_figures, draw_curves
from newfound.report.figures import figures as draw_figures
from newfound.review.page import check_page, confidence_line, trust_lines, write_page
from newfound.review.predict import predict_parts
from newfound.review.review import Review
from newfound.review.server import Live, Server
from newfound.run.folder import Folder
from newfound.run.parts import Workers
from newfound.run.trained import Pictures, RunScores, run_scores
from newfound.run.trained import relocate as relocate_images
from newfound.run.trust import find_hidden


def predict(
    run: RunFolder,
    images: Annotated[str, typer.Argument(help="The new images, as embed takes them, or embeddings.")],
    *,
    out: Annotated[
        str | None,
        typer.Option(
            help="The CSV to write, by default RUN/predictions.csv. A folder gets Parquet files, part by "
            "part, for any number of images."
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
    remote = "://" in images or (out is not None and "://" in out)
    if engine == "ray" or remote or (out and (Path(out).is_dir() or not Path(out).suffix)):
        place = out or str(run / "predictions")
        where = Workers(engine, address, workers)
        done = predict_parts(Review.open(run), images, place, strict, where)
        show_left_out(done.left_out)
        console().print(f"{place}: {counted(done.images, 'image')} sorted, {done.before:,} before")
        return
    folder, target = Folder(run), Path(out) if out else run / "predictions.csv"
    source = folder.request().source
    if target.suffix.lower() != ".csv":
        raise UsageError(f"--out must be a CSV or a folder, not a {target.suffix} file.")
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
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")] = 0,
    data_dir: MovedDataDir = None,
) -> None:
    """Correct the classes on a page in your browser: rename, merge, split, move images."""
    folder = Folder(run)
    server = Server(Live(folder, Pictures.load(folder, data_dir)), port)
    console().print(f"Open {server.address}")
    console().print("Edits are saved at once. Ctrl-C stops the server.")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        console().print(f"\nDone. `newfound classes {folder.quoted}` lists the classes.")
    finally:
        server.server_close()


def report(
    run: RunFolder,
    *,
    out: Annotated[Path | None, typer.Option(help="The HTML file; by default RUN/report.html.")] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Draw t-SNE maps, confusion matrices and curves into this folder."
        ),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Also draw another run beside this one, by default into figures/."),
    ] = None,
    data_dir: MovedDataDir = None,
) -> None:
    """Write the page of a run, print its evaluation, and draw figures."""
    review = Review.open(run)
    for table in evaluation_tables(review.folder.read_results()):
        console().print(table)
    page = out or review.folder.report
    check_page(page)
    folders = [review.folder] if compare is None else [Folder(compare), review.folder]
    if figures is not None or compare is not None:
        for path in draw_runs(folders, figures or Path("figures"), data_dir, curves=compare is None):
            console().print(f"written: {path}")
    write_page(review, Pictures.load(review.folder, data_dir), page)
    console().print(f"written: {page}")


def draw_runs(
    folders: list[Folder], target: Path, data_dir: str | None = None, *, curves: bool = True
) -> list[Path]:
    """Draw one run, or two side by side, and the `curves` of the last one; returns the files."""
    for folder in folders:
        source = folder.request().source
        check_apart(target, source.labelled, source.unlabelled)
    check_writable(target / f"{CURVES}.png")
    if len(folders) == 1:
        check_figures(target)
    lines = folders[-1].read_metrics() if curves else []  # none, for example, of k-means
    scores = _titled([run_scores(folder, data_dir) for folder in folders], folders)
    if len({tuple(each.class_names) for each in scores}) > 1:
        raise UsageError(f"{folders[0].path} and {folders[1].path} are runs on different classes.")
    drawn = draw_figures(scores, target)
    if lines:
        drawn.append(target / f"{CURVES}.png")
        draw_curves(lines, drawn[-1])
    if any(each.found for each in scores):
        console().print("No confusion matrices: the true classes are not known.")
    return drawn


def _titled(scores: list[RunScores], folders: list[Folder]) -> list[RunScores]:
    """The runs; if their titles are equal, their folders tell them apart."""
    if len({each.title for each in scores}) == len(scores):
        return scores
    return [replace(each, title=folder.path.name) for each, folder in zip(scores, folders, strict=True)]


def trust(
    run: RunFolder, *, hold_out: HoldOut = None, data_dir: MovedDataDir = None, stop_after: StopAfter = None
) -> None:
    """Hide known classes, and measure how well the settings of a run find them again."""
    folder = Folder(run)
    with Progress() as progress, Stopping(stop_after) as stopping:
        found = find_hidden(
            folder, hold_out, data_dir, watch=progress.labelled("trust"), should_stop=stopping
        )
    for line in (*trust_lines(found), confidence_line(folder.read_results(), found)):
        console().print(line)
    console().print(f"`newfound report {folder.quoted}` adds this to the page.")


def relocate(run: RunFolder, *, labelled: Labelled = None, unlabelled: Unlabelled = None) -> None:
    """Tell a run where its images are after they moved."""
    folder = Folder(run)
    relocate_images(folder, labelled, unlabelled)
    console().print(f"Updated the image paths of {run}. `newfound report {folder.quoted}` updates the page.")
