"""The verb that makes the page of a run."""

from pathlib import Path
from typing import Annotated

import typer

from newfound.cli.use import DataDir, RunFolder
from newfound.experiment import Folder
from newfound.experiment.call import call_of
from newfound.experiment.reopen import pile_of
from newfound.report.page import check_page, write_page
from newfound.review.review import Review


def report(
    run: RunFolder,
    *,
    out: Annotated[Path | None, typer.Option(help="The HTML file; by default RUN/report.html.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Make a page to open in a browser: each new class with its surest and least sure images, and a map."""
    folder = Folder(run)
    folder.read()
    results, target = folder.read_results(), out or folder.report
    check_page(target)
    review = Review.open(run)
    write_page(target, pile_of(folder, data_dir), review, results, call_of(folder))
    print(f"written: {target}")
