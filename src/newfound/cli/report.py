"""The verb that makes the page of a run."""

from pathlib import Path
from typing import Annotated

import typer

from newfound.cli.options import MovedDataDir, RunFolder
from newfound.cli.output import output
from newfound.experiment.reopen import pile_of
from newfound.report.page import check_page, write_page
from newfound.review.review import Review


def report(
    run: RunFolder,
    *,
    out: Annotated[Path | None, typer.Option(help="The HTML file; by default RUN/report.html.")] = None,
    data_dir: MovedDataDir = None,
) -> None:
    """Make a page to open in a browser: each new class with its surest and least sure images, and a map."""
    review = Review.open(run)
    target = out or review.folder.report
    check_page(target)
    write_page(review, pile_of(review.folder, data_dir, output().print), target)
    print(f"written: {target}")
