"""The paper's tables from the recorded runs."""

from pathlib import Path
from typing import Annotated

import typer

from newfound.report.readme import tables_section
from newfound.report.recorded import load_records


def tables(
    results: Annotated[Path, typer.Option(help="Where the recorded runs are.")] = Path("results"),
) -> None:
    """Print the paper's tables: ours, mean ± std (n), beside the published value in brackets."""
    print(tables_section(load_records(results)))
