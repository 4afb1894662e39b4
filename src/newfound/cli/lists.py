"""The verbs that list benchmarks, encoders and methods."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from newfound.cli.console import console
from newfound.core.catalogue import MethodCard, by_value, catalogue
from newfound.core.errors import Hint, check_known
from newfound.lab.recorded import load_records, status


def data() -> None:
    """List the benchmarks and the files that each needs."""
    from newfound.data.benchmarks import describe_benchmarks

    table = Table("name", "known", "novel", "needs", title="newfound discover METHOD --data NAME")
    for row in describe_benchmarks():
        table.add_row(row.name, str(row.known), str(row.novel), row.needs)
    console().print(table)


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
        return
    records = load_records(results)
    headings = ("name", "what it is", "status") if records else ("name", "what it is")
    table = Table(*headings, title="newfound methods NAME lists the settings")
    for card in cards.values():
        table.add_row(*(card.name, card.description, status(records, card.name))[: len(headings)])
    console().print(table)
    if not records:
        console().print(f"There are no recorded runs in {results}. Use --results for another folder.")


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
