"""The tables of methods and pretraining stages: a name, a class, the values its paper gives a benchmark."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from newfound.core.config import Overrides, Recipe, RunConfig, override
from newfound.core.errors import unknown
from newfound.core.learner import Learner, Method

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
    """Name → what it changes: the rows of an ablation, a shorter schedule."""

    def values_for(self, benchmark: str) -> tuple[str, Overrides]:
        """Whose values a benchmark is trained with, and which; imagenet-30-a has those of imagenet-30."""
        for name in (benchmark, benchmark.rpartition("-")[0]):
            if name in self.published:
                return "published", self.published[name]
            if name in self.ours:
                return "newfound", self.ours[name]
        return "default", {}


_METHODS: dict[str, Entry] = {}
_STAGES: dict[str, type[Learner]] = {}


def register(
    name: str,
    *,
    preset: Overrides | None = None,
    published: Mapping[str, Overrides] | None = None,
    ours: Mapping[str, Overrides] | None = None,
    variations: Mapping[str, Overrides] | None = None,
) -> Callable[[M], M]:
    """Make a method known by `name`; several names may share a class through their presets."""

    def add(method: M) -> M:
        _METHODS[name] = Entry(name, method, preset or {}, published or {}, ours or {}, variations or {})
        return method

    return add


def register_stage(name: str) -> Callable[[L], L]:
    """Make a pretraining stage known by `name`."""

    def add(learner: L) -> L:
        _STAGES[name] = learner
        return learner

    return add


def method_names() -> list[str]:
    return sorted(_METHODS)


def method_entry(name: str) -> Entry:
    if name not in _METHODS:
        raise unknown("method", name, _METHODS, f"newfound methods lists all {len(_METHODS)}")
    return _METHODS[name]


def stage_class(name: str) -> type[Learner]:
    return _STAGES[name]


def recipe_for(name: str, benchmark: str, overrides: Overrides | None = None) -> Recipe:
    """A method's settings for a benchmark: defaults, preset, ours or published values, then `overrides`."""
    entry = method_entry(name)
    recipe = Recipe(name, entry.method.Config(), dict(entry.method.schedules), RunConfig())
    for layer in (entry.preset, entry.values_for(benchmark)[1], overrides or {}):
        recipe = override(recipe, layer)
    return recipe
