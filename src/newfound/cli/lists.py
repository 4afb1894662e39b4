"""The verbs that list benchmarks, encoders and methods.

The methods and their settings are read as data, without importing torch: `python -m tools.catalogue` writes
methods/catalogue.json from the registry, and a test compares the two.
"""

from collections.abc import Mapping
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, TypeAdapter
from rich.table import Column, Table

from newfound.cli.console import console
from newfound.core.errors import Hint, check_known
from newfound.core.registry import METHODS, method_entry, plugin_modules, recipe_for
from newfound.core.settings import Overrides, Value, meanings
from newfound.core.source import PileKind
from newfound.lab.recorded import load_records, status

PATH = files("newfound").joinpath("methods", "catalogue.json")


class SettingCard(BaseModel, extra="forbid", frozen=True, strict=True):
    """One setting of a method."""

    key: str
    default: Value
    meaning: str
    published: dict[str, Value] = {}
    """Benchmark → the paper's value."""
    ours: dict[str, Value] = {}
    """Benchmark or kind of data → our value."""


class MethodCard(BaseModel, extra="forbid", frozen=True, strict=True):
    """A method, its settings and its variations."""

    name: str
    description: str
    piles: list[PileKind]
    """The kinds of piles that it can be used for, its default first."""
    settings: list[SettingCard]
    variations: dict[str, dict[str, Value]]
    """Name → changed settings; the name of a variation for one benchmark ends with it, in brackets."""


CARDS = TypeAdapter(dict[str, MethodCard])


def data() -> None:
    """List the benchmarks and the files that each needs."""
    table = Table("name", "known", "novel", "needs", title="newfound discover METHOD --data NAME")
    for row in benchmark_rows():
        table.add_row(*row)
    console().print(table)


def benchmark_rows() -> list[tuple[str, str, str, str]]:
    """Every benchmark with its numbers of classes and the files it needs."""
    from newfound.data.benchmarks import MIXED, families

    rows = []
    for name, family in families():
        for each in family.benchmarks:
            rows.append((each.name, str(each.num_known), str(len(each.novel)), family.needs))
        if family.classes:
            rows.append((f"{name}-K", f"{len(family.classes)} - K", "K", family.needs))
    return [
        *rows,
        (f"NAME{MIXED}", "half of each labelled", "as NAME", "as NAME"),
        ("NAME-Nshot", "N images of each", "as NAME", "as NAME"),
    ]


def encoders() -> None:
    """List the encoders: size, purpose, whether they are pretrained, and what they need."""
    import torch

    from newfound.core.encoder import Encoder
    from newfound.core.registry import ENCODERS
    from newfound.nn.encoders import build_encoder

    table = Table(
        *("name", Column("features", justify="right"), Column("parameters", justify="right"), "pretrained"),
        *("needs", "licence of the weights", "for"),
        title="newfound discover METHOD encoder=NAME",
    )
    for name in ENCODERS.names():
        if name.endswith(":"):  # any model of a library
            found: Encoder | type[Encoder] = ENCODERS.get(name).func  # type: ignore[attr-defined]
            features, parameters, pretrained = "", "", "no" if found.of_vectors else "yes"
        else:
            with torch.device("meta"):
                found = encoder = build_encoder(name, pretrained=False)
            number = sum(parameter.numel() for parameter in encoder.parameters())
            features, parameters = str(encoder.dim), f"{number / 1e6:.2f} M"
            pretrained = "yes" if encoder.pretrained else "no"
        needs = found.missing() or ("installed" if pretrained == "yes" else "")
        what = ENCODERS.descriptions[name]
        shown = f"{name}{'LENGTH' if found.of_vectors else 'MODEL'}" if name.endswith(":") else name
        table.add_row(shown, features, parameters, pretrained, needs, found.licence, what)
    console().print(table)


def methods(
    name: Annotated[str | None, typer.Argument(help="A method, to list its settings.")] = None,
    *,
    results: Annotated[
        Path, typer.Option(help="The folder of the recorded runs, which give the status.")
    ] = Path("results"),
) -> None:
    """List the methods and their status, or the settings and variations of one."""
    cards = catalogue()
    if name is not None:
        check_known("method", name, cards, Hint.METHODS)
        console().print(_settings(cards[name]))
        console().print(_variations(cards[name]))
        console().print(f"piles, the default first: {', '.join(cards[name].piles)}")
        return
    records = load_records(results)
    headings = ("name", "what it is", "piles", "status")[: 4 if records else 3]
    table = Table(*headings, title="newfound methods NAME lists the settings")
    for card in cards.values():
        cells = card.name, card.description, ", ".join(card.piles), status(records, card.name)
        table.add_row(*cells[: len(headings)])
    console().print(table)
    if not records:
        console().print(
            f"Recorded runs would add a status; {results} has none. Use --results for another folder."
        )


def by_value(values: Mapping[str, object]) -> dict[str, list[str]]:
    """Invert benchmark → value: each value with its benchmarks."""
    groups: dict[str, list[str]] = {}
    for benchmark, value in values.items():
        groups.setdefault(str(value), []).append(benchmark)
    return groups


def _settings(card: MethodCard) -> Table:
    table = Table(
        Column("setting", no_wrap=True),
        *("default", "meaning", "published", "ours"),
        title=f"settings of {card.name}: key=value",
    )
    for each in card.settings:
        published, ours = (
            "\n".join(f"{value} ({', '.join(names)})" for value, names in by_value(values).items())
            for values in (each.published, each.ours)
        )
        table.add_row(each.key, str(each.default), each.meaning, published, ours)
    return table


def _variations(card: MethodCard) -> Table:
    table = Table(
        Column("recipe", no_wrap=True),
        "what it changes",
        title=f"variations of {card.name}: newfound reproduce BENCHMARK {card.name} --recipe NAME",
    )
    for recipe, changes in card.variations.items():
        table.add_row(recipe, " ".join(f"{key}={value}" for key, value in changes.items()) or "nothing")
    return table


def catalogue() -> dict[str, MethodCard]:
    """Name → card; imports the methods, and with them torch, only if there are plug-ins."""
    if plugin_modules() or entry_points(group=METHODS.group):
        return registered()
    return CARDS.validate_json(PATH.read_bytes())


def registered() -> dict[str, MethodCard]:
    """The cards of all registered methods."""
    return {name: _card(name) for name in METHODS.names()}


def _card(name: str) -> MethodCard:
    entry, recipe = method_entry(name), recipe_for(name, "")
    values = recipe.flat()
    settings = [
        SettingCard(
            key=prefix + key,
            default=values[prefix + key],
            meaning=meaning,
            published=_values_of(prefix + key, entry.published),
            ours=_values_of(prefix + key, entry.ours),
        )
        for prefix, configs in recipe.groups().items()
        for config in configs
        for key, meaning in meanings(config).items()
    ]
    variations = {variation: dict(changes) for variation, changes in entry.variations.items()}
    for benchmark, named in entry.only_on.items():
        variations |= {f"{variation} ({benchmark})": dict(changes) for variation, changes in named.items()}
    return MethodCard(
        name=name,
        description=entry.description,
        piles=entry.piles,
        settings=settings,
        variations=variations,
    )


def _values_of(key: str, given: Mapping[str, Overrides]) -> dict[str, Value]:
    return {benchmark: values[key] for benchmark, values in given.items() if key in values}
