"""Registries of methods, stages, encoders, data sets and exporters, each with a decorator.

External plug-ins come from an entry point (group `newfound.methods`, `newfound.stages`, `newfound.encoders`,
`newfound.datasets` or `newfound.exporters`) or from a module named in the environment variable
NEWFOUND_PLUGINS. This module does not import torch.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from newfound.core.errors import Hint, UsageError, check_known, reason_of
from newfound.core.settings import Overrides, Recipe, RunConfig, TrainConfig, override

if TYPE_CHECKING:
    from newfound.core.encoder import Encoder
    from newfound.core.learner import Learner, Method
    from newfound.core.source import PileKind

VARIABLE = "NEWFOUND_PLUGINS"
"""The environment variable that lists modules to import, separated by commas."""
T = TypeVar("T")
D = TypeVar("D")
M = TypeVar("M", bound="type[Method]")
E = TypeVar("E", bound="Callable[..., Encoder]")
log = logging.getLogger(__name__)


class Registry(Generic[T]):
    """Name → registered item. The first look-up imports our own modules, then all plug-ins."""

    def __init__(self, kind: str, group: str, home: str, hint: Hint | None = None) -> None:
        self.kind, self.hint = kind, hint
        self.group, self.home = f"newfound.{group}", f"newfound.{home}"
        self.items: dict[str, T] = {}
        self.descriptions: dict[str, str] = {}
        """One line each, for some of the items."""
        self._loaded = False

    def register(self, name: str) -> Callable[[D], D]:
        """The decorator that registers a class, a function or an object."""

        def add(item: D) -> D:
            self.add(name, item)
            return item

        return add

    def add(self, name: str, item: Any, description: str = "") -> None:
        """Register `item`; only the same definition, from a reloaded module, may reuse a name."""
        old, new = (_definition(each) for each in (self.items.get(name, item), item))
        if old != new:
            raise UsageError(f"The {self.kind} name {name!r} of {new} is already taken by {old}.")
        self.items[name], self.descriptions[name] = item, description

    def get(self, name: str) -> T:
        if name not in self.items:
            self.load()
        check_known(self.kind, name, self.items, self.hint)
        return self.items[name]

    def names(self) -> list[str]:
        self.load()
        return sorted(self.items)

    def load(self) -> None:
        """Import our own modules and the plug-ins, once."""
        if not self._loaded:
            import_module(self.home)
            load_plugins(self.group)
            self._loaded = True


def _definition(item: Any) -> str:
    """The full name of an item's class or function: a method's, a partial's, or an object's type."""
    item = item.method if isinstance(item, Entry) else getattr(item, "func", getattr(item, "write", item))
    defined = item if hasattr(item, "__qualname__") else type(item)
    return f"{defined.__module__}.{defined.__qualname__}"


def load_plugins(group: str) -> None:
    """Import the entry points of this group, and the modules in NEWFOUND_PLUGINS.

    A broken entry point is only a warning, since any installed package may bring one; a broken module in the
    variable is an error. Modules may also be in the current folder.
    """
    for each in entry_points(group=group):
        try:
            each.load()
        except Exception as error:
            log.warning("Ignoring the plug-in %s (%s): %s", each.name, each.value, reason_of(error))
    names = plugin_modules()
    if names and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    for name in names:
        try:
            import_module(name)
        except Exception as error:
            raise UsageError(f"Cannot import {name!r}, named in {VARIABLE}: {reason_of(error)}.") from error


def library(name: str, extra: str) -> Any:
    """Import a library that one of our extras installs."""
    try:
        return import_module(name)
    except ImportError:
        raise UsageError(f"This needs {name.partition('.')[0]}: pip install 'newfound[{extra}]'.") from None


def plugin_modules() -> list[str]:
    """The modules that NEWFOUND_PLUGINS names."""
    return [name for part in os.environ.get(VARIABLE, "").split(",") if (name := part.strip())]


@dataclass(frozen=True)
class Entry:
    """One registered method."""

    name: str
    method: "type[Method]"
    preset: Overrides = field(default_factory=dict)
    published: Mapping[str, Overrides] = field(default_factory=dict)
    """Benchmark → the paper's values for it."""
    ours: Mapping[str, Overrides] = field(default_factory=dict)
    """Benchmark or kind of data → our values where no paper gives any."""
    variations: Mapping[str, Overrides] = field(default_factory=dict)
    """Name → changed settings: the rows of an ablation, the matched track."""
    only_on: Mapping[str, Mapping[str, Overrides]] = field(default_factory=dict)
    """Benchmark → variations that only make sense there, such as a shorter schedule."""
    what: str = ""
    """A description, needed if one module defines several methods."""

    @property
    def versions(self) -> dict[str, int]:
        """Stage → `cache_version` of its learner."""
        learners = {stage: STAGES.get(stage) for stage in self.method.schedules if stage != "discover"}
        return {stage: each.cache_version for stage, each in {**learners, "discover": self.method}.items()}

    @property
    def piles(self) -> "list[PileKind]":
        """The kinds of piles that it can be used for, its default first."""
        kinds: list[PileKind] = ["novel", "mixed"] if self.method.mixed else ["novel"]
        return sorted(kinds, key=lambda kind: kind != self.method.made_for)

    @property
    def description(self) -> str:
        """One line, by default the first one of its module's docstring."""
        module = sys.modules.get(self.method.__module__)
        return self.what or (getattr(module, "__doc__", None) or "").partition("\n")[0]

    def values_for(self, benchmark: str) -> tuple[str, Overrides]:
        """The origin of the values for a benchmark, and the values; imagenet-30-a uses imagenet-30's."""
        for name in _families(benchmark):
            if name in self.published:
                return "published", self.published[name]
            if name in self.ours:
                return "newfound", self.ours[name]
        return "default", {}

    def variations_for(self, benchmark: str) -> dict[str, Overrides]:
        """The variations available on a benchmark."""
        return {**self.variations, **self.only_on.get(benchmark, {})}


def _families(benchmark: str) -> Iterator[str]:
    """A benchmark and its families: cifar100-80-10, cifar100-80, cifar100."""
    while benchmark:
        yield benchmark
        benchmark = benchmark.rpartition("-")[0]


METHODS: Registry[Entry] = Registry("method", "methods", "methods", Hint.METHODS)
STAGES: "Registry[type[Learner]]" = Registry("stage", "stages", "stages")
ENCODERS: "Registry[Callable[..., Encoder]]" = Registry("encoder", "encoders", "nn.encoders", Hint.ENCODERS)
DATASETS: Registry[Any] = Registry("data set", "datasets", "data.benchmarks", Hint.BENCHMARKS)
EXPORTERS: Registry[Any] = Registry("format", "exporters", "review.export", Hint.FORMAT)
register_stage, register_dataset, register_exporter = STAGES.register, DATASETS.register, EXPORTERS.register
method_names, method_entry, stage_class = METHODS.names, METHODS.get, STAGES.get
_MATCHED: dict[str, Overrides] = {}


def register(
    name: str,
    *,
    what: str = "",
    preset: Overrides | None = None,
    published: Mapping[str, Overrides] | None = None,
    ours: Mapping[str, Overrides] | None = None,
    variations: Mapping[str, Overrides] | None = None,
    only_on: Mapping[str, Mapping[str, Overrides]] | None = None,
) -> Callable[[M], M]:
    """Register a method; several names may share a class and differ in their presets."""

    def add(method: M) -> M:
        named = {"matched": {"track": "matched"}, **(variations or {})}
        entry = Entry(name, method, preset or {}, published or {}, ours or {}, named, only_on or {}, what)
        METHODS.add(name, entry)
        return method

    return add


def register_encoder(name: str, what: str = "", **arguments: object) -> Callable[[E], E]:
    """Register an encoder: a class or function to call with `arguments`, and `what` it is for."""

    def add(build: E) -> E:
        description = what or (build.__doc__ or "").partition("\n")[0]
        ENCODERS.add(name, partial(build, **arguments), description)
        return build

    return add


def register_matched(values: Mapping[str, Overrides]) -> None:
    """Declare the matched track: values by benchmark or kind of data; "" is for all others.

    A method takes the values it has a setting for.
    """
    _MATCHED.update(values)


def recipe_for(name: str, benchmark: str, overrides: Overrides | None = None) -> Recipe:
    """A method's settings for a benchmark: defaults, preset, our or published values, then `overrides`.

    `recipe_for(name, "", settings)` restores a recipe from the settings that a run stored.
    """
    entry, overrides = method_entry(name), overrides or {}
    method, layers = entry.method, [entry.preset, entry.values_for(benchmark)[1]]
    is_matched = overrides.get("track") == "matched"
    stages = (*method.matched, "discover") if is_matched else method.schedules
    train = {stage: method.schedules.get(stage, TrainConfig()) for stage in stages}
    recipe = Recipe(name, method.Config(), train, RunConfig())
    if is_matched:  # a method keeps the settings of its objective; the training is the same for all
        known = recipe.flat()
        if not train["discover"].epochs:  # it trains nothing of its own
            known.pop("epochs")
        shared = next((_MATCHED[each] for each in _families(benchmark) if each in _MATCHED), _MATCHED[""])
        layers = [{key: layer[key] for key in layer if key in known} for layer in (*layers, shared)]
    for layer in (*layers, overrides):
        recipe = override(recipe, layer)
    return recipe


def changes_nothing(method: str, benchmark: str, variation: str) -> bool:
    """Whether a variation equals the method's default training on that benchmark."""
    variations = method_entry(method).variations_for(benchmark) if method in method_names() else {}
    if variation not in variations:
        return False
    return recipe_for(method, benchmark, variations[variation]) == recipe_for(method, benchmark)
