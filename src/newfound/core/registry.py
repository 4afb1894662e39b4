"""The tables of methods and pretraining stages: a name, a class, the values its paper gives a benchmark."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from newfound.core.code import digest_of_code, forget, modules_of
from newfound.core.config import Overrides, Recipe, RunConfig, TrainConfig, override
from newfound.core.errors import UsageError, unknown
from newfound.core.learner import Learner, Method
from newfound.core.own_methods import VARIABLE

L = TypeVar("L", bound=type[Learner])
M = TypeVar("M", bound=type[Method])


@dataclass(frozen=True)
class Entry:
    """One registered method."""

    name: str
    method: type[Method]
    preset: Overrides = field(default_factory=dict)
    published: Mapping[str, Overrides] = field(default_factory=dict)
    """Benchmark → the values the paper trains it with."""
    ours: Mapping[str, Overrides] = field(default_factory=dict)
    """Benchmark or kind of data → values we chose where no paper gives any."""
    variations: Mapping[str, Overrides] = field(default_factory=dict)
    """Name → what it changes: the rows of an ablation, the matched track."""
    only_on: Mapping[str, Mapping[str, Overrides]] = field(default_factory=dict)
    """Benchmark → variations that mean something there alone, such as a shorter schedule."""
    what: str = ""
    """What it is, where its module is about several methods."""

    @cached_property
    def code(self) -> str:
        """A digest of its code and of its stages', to tell runs of other code; empty where it has no file."""
        stages = (stage_class(stage) for stage in self.method.schedules if stage != "discover")
        return digest_of_code(name for learner in (self.method, *stages) for name in modules_of(learner))

    @property
    def description(self) -> str:
        """What it is in one line: the first of its module, if nothing else is said."""
        return self.what or (sys.modules[self.method.__module__].__doc__ or "").partition("\n")[0]

    def values_for(self, benchmark: str) -> tuple[str, Overrides]:
        """Whose values a benchmark is trained with, and which; imagenet-30-a has those of imagenet-30."""
        for name in _families(benchmark):
            if name in self.published:
                return "published", self.published[name]
            if name in self.ours:
                return "newfound", self.ours[name]
        return "default", {}

    def variations_for(self, benchmark: str) -> dict[str, Overrides]:
        """The variations that a benchmark can be trained with."""
        return {**self.variations, **self.only_on.get(benchmark, {})}


def _families(benchmark: str) -> Iterator[str]:
    """A benchmark and what it belongs to: cifar100-80-10, cifar100-80, cifar100."""
    while benchmark:
        yield benchmark
        benchmark = benchmark.rpartition("-")[0]


def with_defaults(method: str, settings: Overrides) -> dict[str, Any]:
    """Settings that an earlier version wrote, with those that are new since."""
    return recipe_for(method, "").flat() | dict(settings)


def changes_nothing(method: str, benchmark: str, variation: str) -> bool:
    """Whether a named variation is what the method is trained with on that benchmark anyway."""
    variations = _METHODS[method].variations_for(benchmark) if method in _METHODS else {}
    if variation not in variations:
        return False
    varied = recipe_for(method, benchmark, variations[variation])
    return varied == recipe_for(method, benchmark)


_METHODS: dict[str, Entry] = {}
_MATCHED: dict[str, Overrides] = {}
_STAGES: dict[str, type[Learner]] = {}


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
    """Make a method known by `name`; several names may share a class through their presets."""

    def add(method: M) -> M:
        if name in _METHODS:
            _check_same(name, _METHODS[name].method, method)
            forget()
        _check_schedules(name, method)
        named = {"matched": {"track": "matched"}, **(variations or {})}
        _METHODS[name] = Entry(
            name, method, preset or {}, published or {}, ours or {}, named, only_on or {}, what
        )
        return method

    return add


def _check_same(name: str, old: type[Learner], new: type[Learner]) -> None:
    """Refuse a name that another class has; the same one comes again when its module is reloaded."""
    before, now = (f"{each.__module__}.{each.__qualname__}" for each in (old, new))
    if before != now:
        raise UsageError(
            f"a registered name must be of one class; got {name!r} for {now}, and {before} has it already; "
            "choose another name"
        )


def _check_schedules(name: str, method: type[Method]) -> None:
    """Every run of a method ends with a stage of its own."""
    stages = list(getattr(method, "schedules", {}))
    if stages[-1:] != ["discover"]:
        raise UsageError(
            f"schedules of {name} must name the stages of a run in order, discover as the last; "
            f"got {', '.join(stages) or 'none'}; for example {{'discover': TrainConfig()}}"
        )


def register_stage(name: str) -> Callable[[L], L]:
    """Make a pretraining stage known by `name`."""

    def add(learner: L) -> L:
        _check_same(name, _STAGES.get(name, learner), learner)
        _STAGES[name] = learner
        return learner

    return add


def register_matched(values: Mapping[str, Overrides]) -> None:
    """Declare the matched track: the values of each benchmark or kind of data, "" of all that are not named.

    A method takes over what it has a setting for.
    """
    _MATCHED.update(values)


def method_names() -> list[str]:
    return sorted(_METHODS)


def method_entry(name: str) -> Entry:
    if name not in _METHODS:
        remedy = f"newfound methods lists all {len(_METHODS)}; {VARIABLE} names modules with others"
        raise unknown("method", name, _METHODS, remedy)
    return _METHODS[name]


def stage_class(name: str) -> type[Learner]:
    if name not in _STAGES:
        raise unknown("stage", name, _STAGES, f"there are {', '.join(_STAGES)}")
    return _STAGES[name]


def recipe_for(name: str, benchmark: str, overrides: Overrides | None = None) -> Recipe:
    """A method's settings for a benchmark: defaults, preset, ours or published values, then `overrides`."""
    entry, overrides = method_entry(name), overrides or {}
    layers = [entry.preset, entry.values_for(benchmark)[1]]
    if overrides.get("track") == "matched":
        recipe = _matched_recipe(entry, benchmark, layers)
    else:
        recipe = Recipe(name, entry.method.Config(), dict(entry.method.schedules), RunConfig())
        for layer in layers:
            recipe = override(recipe, layer)
    return override(recipe, overrides)


def _matched_recipe(entry: Entry, benchmark: str, layers: Iterable[Overrides]) -> Recipe:
    """The method trained as every other is; of its own settings, those of its objective stay."""
    method = entry.method
    train = {stage: method.schedules.get(stage, TrainConfig()) for stage in (*method.matched, "discover")}
    recipe = Recipe(entry.name, method.Config(), train, RunConfig())
    known = recipe.flat()
    if not train["discover"].epochs:  # it trains nothing of its own
        known.pop("epochs")
    shared = next((_MATCHED[name] for name in _families(benchmark) if name in _MATCHED), _MATCHED[""])
    for layer in (*layers, shared):
        recipe = override(recipe, {key: value for key, value in layer.items() if key in known})
    return recipe
