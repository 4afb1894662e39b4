"""The paper's tables from the recorded runs."""

from pathlib import Path
from typing import Annotated

import typer

from newfound.core.errors import UsageError
from newfound.report.paper_tables import tables_section
from newfound.report.recorded import load_records


def tables(
    results: Annotated[Path, typer.Option(help="Where the recorded runs are.")] = Path("results"),
) -> None:
    """Print the paper's tables: ours, mean ± std (n), beside the published value in brackets."""
    records = load_records(results)
    if not records:
        raise UsageError(f"recorded runs must be in {results}; found none; --results says where they are")
    print(tables_section(records))
