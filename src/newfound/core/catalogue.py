"""The methods and their settings as data, read without importing torch.

`python -m tools.catalogue` writes methods/catalogue.json from the registry; a test compares the two.
"""

from collections.abc import Mapping
from importlib.metadata import entry_points
from importlib.resources import files

from pydantic import BaseModel, TypeAdapter

from newfound.core.registry import METHODS, method_entry, plugin_modules, recipe_for
from newfound.core.settings import Overrides, Value, meanings

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
    settings: list[SettingCard]
    variations: dict[str, dict[str, Value]]
    """Name → changed settings; the name of a variation for one benchmark ends with it, in brackets."""


def by_value(values: Mapping[str, object]) -> dict[str, list[str]]:
    """Invert benchmark → value: each value with its benchmarks."""
    groups: dict[str, list[str]] = {}
    for benchmark, value in values.items():
        groups.setdefault(str(value), []).append(benchmark)
    return groups


CARDS = TypeAdapter(dict[str, MethodCard])


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
    return MethodCard(name=name, description=entry.description, settings=settings, variations=variations)


def _values_of(key: str, given: Mapping[str, Overrides]) -> dict[str, Value]:
    return {benchmark: values[key] for benchmark, values in given.items() if key in values}
