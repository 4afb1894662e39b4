"""What there is: data sets and methods."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

import newfound.experiment  # noqa: F401 (registers the methods)
from newfound.cli.output import output
from newfound.core.config import Overrides, meanings
from newfound.core.registry import method_entry, method_names, recipe_for
from newfound.data.benchmarks import describe_benchmarks
from newfound.report.recorded import load_records, status


def data() -> None:
    """List the named benchmarks and what each needs."""
    table = Table("name", "known", "novel", "needs", title="newfound discover METHOD --data NAME")
    for row in describe_benchmarks():
        table.add_row(row.name, str(row.known), str(row.novel), row.needs)
    output().print(table)


def methods(
    name: Annotated[str | None, typer.Argument(help="A method, to see its settings.")] = None,
    *,
    results: Annotated[Path, typer.Option(help="Where recorded runs are, for the status.")] = Path("results"),
) -> None:
    """List the methods and their status, or one's settings (defaults, meaning, published) and variations."""
    if name is not None:
        console = output()
        console.print(_settings(name))
        console.print(_variations(name))
        return
    told = ("name", "what it is", "status") if results.is_dir() else ("name", "what it is")
    table = Table(*told, title="newfound methods NAME lists the settings")
    records = load_records(results)
    for known in method_names():
        table.add_row(*(known, method_entry(known).description, status(records, known))[: len(told)])
    output().print(table)
    if "status" not in told:
        print(f"no status, for {results} is no folder of recorded runs; --results says where they are")


def _settings(name: str) -> Table:
    entry, recipe = method_entry(name), recipe_for(name, "")
    values = recipe.flat()
    table = Table(
        Column("setting", no_wrap=True),
        *("default", "meaning", "published", "ours"),
        title=f"settings of {name}: key=value",
    )
    for prefix, configs in recipe.groups().items():
        for key, meaning in (pair for config in configs for pair in meanings(config).items()):
            full = prefix + key
            published, ours = _by_value(entry.published, full), _by_value(entry.ours, full)
            table.add_row(full, str(values[full]), meaning, published, ours)
    return table


def _variations(name: str) -> Table:
    table = Table(
        Column("recipe", no_wrap=True),
        "what it changes",
        title=f"variations of {name}: newfound reproduce BENCHMARK {name} --recipe NAME",
    )
    entry = method_entry(name)
    named = list(entry.variations.items())
    for benchmark, variations in entry.only_on.items():
        named += [(f"{recipe} ({benchmark})", changes) for recipe, changes in variations.items()]
    for recipe, changes in named:
        table.add_row(recipe, " ".join(f"{key}={value}" for key, value in changes.items()) or "nothing")
    return table


def _by_value(given: Mapping[str, Overrides], key: str) -> str:
    """The values that benchmarks give a setting, each with the benchmarks that give it."""
    groups: dict[str, list[str]] = {}
    for benchmark, values in given.items():
        if key in values:
            groups.setdefault(str(values[key]), []).append(benchmark)
    return "\n".join(f"{value} ({', '.join(names)})" for value, names in groups.items())
