"""The command line: `python -m benchmarks uno-v2 batch_size=256 --parts step --out record.json`."""

import logging
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.parts import measure
from benchmarks.setup import MODES, ON_REQUEST, PARTS, checked_setup
from benchmarks.tables import tables
from newfound.core.errors import NewfoundError
from newfound.core.files import check_writable, write_json

INCOMPLETE = ".part"
"""The suffix of a record until everything is measured."""
UNLIMITED = 1000
"""The width of the output, in columns, if it is not a terminal."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, show tables and write the record."""
    parser = _parser()
    given = parser.parse_intermixed_args(arguments)
    methods = [word for word in given.words if "=" not in word]
    settings = dict(word.split("=", 1) for word in given.words if "=" in word)
    out: Path | None = given.out
    if len(methods) > 1:
        parser.error(f"one method at most, got {', '.join(methods)}")
    if out and (out.suffix != ".json" or out.exists() or out.with_suffix(INCOMPLETE).exists()):
        parser.error(f"--out must be a new .json file, got {out}")
    logging.basicConfig(format="%(message)s")
    logging.getLogger("benchmarks").setLevel(logging.INFO)
    try:
        method = methods[0] if methods else "iic"
        setup = checked_setup(method, given.data, settings, _names(given.modes), _names(given.parts))
        if out:
            check_writable(out)
        for record in measure(setup):
            if out:  # keep what is measured if the rest is interrupted
                write_json(out.with_suffix(INCOMPLETE), record.to_json())
    except NewfoundError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = UNLIMITED
    for table in tables(record):
        console.print(table)
    if out:
        out.with_suffix(INCOMPLETE).replace(out)
        console.print(f"written: {out}")


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="python -m benchmarks",
        description="Measure a training step and its parts on this machine, on random pixels; on a CPU, a "
        "smaller version of it.",
    )
    add = parser.add_argument
    add("words", nargs="*", metavar="METHOD | KEY=VALUE", help="method (default iic) and settings of the run")
    add("--data", default="cifar10", help="benchmark whose shape the images have (default cifar10)")
    add("--modes", default="", help=f"of {','.join(MODES)} (default: all that this machine supports)")
    add("--parts", default="", help=f"of {','.join((*PARTS, *ON_REQUEST))} (default: all but methods)")
    add("--out", type=Path, help="JSON file for the record")
    return parser


def _names(text: str) -> list[str]:
    """`a,b` → `["a", "b"]`."""
    return [name.strip() for name in text.split(",") if name.strip()]


if __name__ == "__main__":
    main()
