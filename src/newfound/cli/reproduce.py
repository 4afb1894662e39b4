"""Measured runs for results/: a published recipe, or a named variation of it, over seeds."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from newfound.cli.options import DataDir, Method, StopAfter
from newfound.cli.running import check_code
from newfound.cli.stopping import REPEAT
from newfound.cli.train import run_chain
from newfound.core.config import Overrides
from newfound.core.errors import UsageError, unknown
from newfound.core.registry import changes_nothing, method_entry, method_names
from newfound.engine.files import check_writable, write_json
from newfound.experiment import Folder, Source
from newfound.report.paper import APPENDIX, ESTIMATES

ESTIMATED = "estimated"
"""The recipe with the number of novel classes that the paper estimates."""


def reproduce(
    benchmark: Annotated[str, typer.Argument(help="A named benchmark; `newfound data` lists them.")],
    method: Method,
    *,
    recipe: Annotated[str | None, typer.Option(help="A named variation, for example inter-only.")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds with commas between.")] = "0",
    data_dir: DataDir = None,
    stop_after: StopAfter = None,
    out: Annotated[Path, typer.Option(help="Where the runs are kept, to be resumed.")] = Path(
        "runs/reproduce"
    ),
    results: Annotated[Path, typer.Option(help="Where the records are written.")] = Path("results"),
    note: Annotated[
        str | None, typer.Option(help="Kept in the record, for example that the GPU was shared.")
    ] = None,
) -> None:
    """Run a published recipe, resuming by itself, and record it under results/."""
    _check_order(benchmark, method)
    recipe, overrides = _variation(benchmark, method, recipe)
    source = Source(benchmark=benchmark, data_dir=data_dir)
    if recipe == ESTIMATED:
        source = replace(source, num_novel=ESTIMATES[benchmark], estimated="the paper's")
    runs = {}
    for seed in _numbers(seeds):
        name = f"{method}-{recipe}-seed{seed}" if recipe else f"{method}-seed{seed}"
        record, folder = results / benchmark / f"{name}.json", Folder(out / benchmark / name)
        if record.exists():
            print(f"{record} is recorded already")
            continue
        check_writable(record)
        check_code(folder, method)
        runs[seed] = record, folder
    for seed, (record, folder) in runs.items():
        resume = folder.config.exists()
        run_chain(method, {**overrides, "seed": seed}, source, folder.path, resume, stop_after, go_on=REPEAT)
        _write(record, folder, recipe, note)


def _check_order(benchmark: str, method: str) -> None:
    """Refuse the two names the other way round."""
    if benchmark in method_names() and method not in method_names():
        raise UsageError(
            f"the benchmark must come first, then the method; got {benchmark} {method}; "
            f"try newfound reproduce {method} {benchmark}"
        )


def _variation(benchmark: str, method: str, recipe: str | None) -> tuple[str | None, Overrides]:
    """A named variation with its settings; one that changes nothing is the usual recipe, without a name."""
    variations = method_entry(method).variations_for(benchmark)
    if benchmark in ESTIMATES:
        variations[ESTIMATED] = variations.get(APPENDIX, {})
    if recipe is None:
        return None, {}
    if recipe not in variations:
        raise unknown("recipe", recipe, variations, f"{method} has {', '.join(variations)} on {benchmark}")
    if changes_nothing(method, benchmark, recipe):
        print(f"{recipe} changes nothing for {method} on {benchmark}: its usual recipe is run")
        return None, {}
    return recipe, variations[recipe]


def _write(record: Path, folder: Folder, recipe: str | None, note: str | None) -> None:
    """The results of a run, with its recipe by the name that was asked for."""
    found = folder.read_results()
    remark = {"note": note} if note else {}
    write_json(record, found | {"recipe": recipe or found["recipe"]} | remark)
    print(f"recorded: {record}")


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--seeds must be whole numbers with commas between; got {text!r}; try 0,1,2"
        ) from None
