"""The verb that shows a run: its page, its numbers, its figures."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from newfound.cli.console import console
from newfound.cli.options import MovedDataDir, RunFolder
from newfound.cli.results import evaluation_tables
from newfound.core.errors import UsageError
from newfound.core.files import check_apart, check_writable
from newfound.report.figures import CURVES, check_figures, draw_curves
from newfound.report.figures import figures as draw_figures
from newfound.review.page import check_page, write_page
from newfound.review.review import Review
from newfound.run.folder import Folder
from newfound.run.models import EpochLine
from newfound.run.trained import Pictures, RunScores, run_scores


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
        typer.Option(metavar="RUN", help="Draw another run beside this one, by default into figures."),
    ] = None,
    data_dir: MovedDataDir = None,
) -> None:
    """Write the page of a run, print every number of both protocols, draw the figures."""
    review = Review.open(run)
    for table in evaluation_tables(review.folder.read_results()):
        console().print(table)
    page = out or review.folder.report
    check_page(page)
    folders = [review.folder] if compare is None else [Folder(compare), review.folder]
    if figures is not None or compare is not None:
        for path in draw_runs(folders, figures or Path("figures"), data_dir):
            console().print(f"written: {path}")
    write_page(review, Pictures.load(review.folder, data_dir), page)
    console().print(f"written: {page}")


def draw_runs(folders: list[Folder], target: Path, data_dir: str | None = None) -> list[Path]:
    """Draw one run with its curves, or two side by side."""
    for folder in folders:
        source = folder.request().source
        check_apart(target, source.labelled, source.unlabelled)
    check_writable(target / f"{CURVES}.png")
    if len(folders) == 1:
        check_figures(target)
    lines = folders[0].read_metrics() if len(folders) == 1 else []
    scores = _titled([run_scores(folder, data_dir) for folder in folders], folders)
    if len({tuple(each.class_names) for each in scores}) > 1:
        raise UsageError(f"{folders[0].path} and {folders[1].path} are runs on different classes.")
    drawn = draw_figures(scores, target)
    drawn += draw_run_curves(lines, target)
    if any(each.found for each in scores):
        console().print("No confusion matrices: the true classes are not known.")
    return drawn


def draw_run_curves(lines: list[EpochLine], target: Path) -> list[Path]:
    """Draw scores and losses over the epochs; nothing where there were none, as of k-means."""
    path = target / f"{CURVES}.png"
    if not lines:
        return []
    draw_curves(lines, path)
    return [path]


def _titled(scores: list[RunScores], folders: list[Folder]) -> list[RunScores]:
    """Two runs of one method are told apart by their folders."""
    if len({each.title for each in scores}) == len(scores):
        return scores
    return [replace(each, title=folder.path.name) for each, folder in zip(scores, folders, strict=True)]
