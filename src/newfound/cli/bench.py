"""The verb that measures speed."""

from pathlib import Path
from typing import Annotated

import typer

from newfound.bench.record import bench_records
from newfound.bench.setup import MODES, ON_REQUEST, PARTS, checked_setup
from newfound.bench.tables import bench_tables
from newfound.cli.options import Method, method_and_settings
from newfound.cli.output import output
from newfound.core.errors import UsageError
from newfound.engine.files import check_writable, write_json
from newfound.experiment.question import USUAL

PART = ".part"
"""The ending of a record until it is complete."""


def bench(
    method: Method = USUAL,
    settings: Annotated[
        list[str] | None, typer.Argument(help="Settings as key=value, for example batch_size=256 device=cpu.")
    ] = None,
    *,
    data: Annotated[str, typer.Option("--data", help="The benchmark whose shape is used.")] = "cifar10",
    modes: Annotated[str, typer.Option(help=f"Of {','.join(MODES)}; by default all that suit.")] = "",
    parts: Annotated[
        str,
        typer.Option(
            help=f"Of {','.join(PARTS)}; by default all that suit. On request: {','.join(ON_REQUEST)}."
        ),
    ] = "",
    out: Annotated[Path | None, typer.Option(help="A JSON file for the record.")] = None,
) -> None:
    """Measure a training step and its parts on this machine, on random pixels; a CPU gets a small version."""
    if out is not None and (out.suffix != ".json" or out.exists() or out.with_suffix(PART).exists()):
        raise UsageError(
            f"--out must be a new .json file; got {out}; move what is there away, or choose another"
        )
    if out is not None:
        check_writable(out)
    method, overrides = method_and_settings(method, settings)
    setup = checked_setup(method, data, overrides, _names(modes), _names(parts))
    console = output()
    if out is not None:
        console.print(f"what is measured is in {out.with_suffix(PART)} until all of it is")
    for record in bench_records(setup, console.print):
        if out is not None:  # what was measured stays, whatever ends the rest
            write_json(out.with_suffix(PART), record)
    for table in bench_tables(record):
        console.print(table)
    if out is not None:
        out.with_suffix(PART).replace(out)
        console.print(f"written: {out}")


def _names(text: str) -> list[str]:
    """`a,b` → `["a", "b"]`."""
    return [name.strip() for name in text.split(",") if name.strip()]
