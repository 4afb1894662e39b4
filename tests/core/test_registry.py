"""The tables of methods and stages."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from newfound.core import registry
from newfound.core.config import TrainConfig
from newfound.core.errors import UsageError
from newfound.core.learner import Method
from newfound.core.registry import (
    Entry,
    changes_nothing,
    method_entry,
    method_names,
    recipe_for,
    register,
    register_stage,
    stage_class,
)
from newfound.methods.uno import UNO


def method_class(module: str, schedules: Mapping[str, TrainConfig] | None = None) -> Any:
    """A method as a file of that name defines it."""
    return type(
        "Own", (Method,), {"__module__": module, "schedules": schedules or {"discover": TrainConfig()}}
    )


@pytest.mark.parametrize("add", [register, register_stage])
def test_a_name_is_of_one_class_which_may_come_again(add: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for table in ("_METHODS", "_STAGES"):
        monkeypatch.setattr(registry, table, {})
    add("own")(method_class("mine"))
    again = add("own")(method_class("mine"))
    with pytest.raises(UsageError, match=r"got 'own' for other.Own, and mine.Own has it already; choose"):
        add("own")(method_class("other"))
    assert again in (registry._STAGES.get("own"), *(entry.method for entry in registry._METHODS.values()))


@pytest.mark.parametrize(
    ("stages", "got"),
    [(("pretrain",), "got pretrain;"), (("discover", "pretrain"), "got discover, pretrain;")],
)
def test_a_method_names_its_own_stage_last(stages: tuple[str, ...], got: str) -> None:
    with pytest.raises(UsageError, match=f"schedules of own must .* discover as the last; {got}"):
        register("own")(method_class("mine", dict.fromkeys(stages, TrainConfig())))
    assert "own" not in method_names()


def test_a_method_without_schedules_is_told_so() -> None:
    with pytest.raises(UsageError, match=r"schedules of own must .* got none;"):
        register("own")(type("Own", (Method,), {}))


def test_unknown_stage_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown stage 'pretrian'; did you mean 'pretrain'\? there are "):
        stage_class("pretrian")


def test_names_are_these() -> None:
    assert set(method_names()) >= {"iic", "kmeans", "uno-v1", "uno-v2"}
    assert method_names() == sorted(method_names())


def test_unknown_method_names_the_nearest_and_how_many_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        method_entry("icc")
    assert str(caught.value) == (
        f"unknown method 'icc'; did you mean 'iic'? newfound methods lists all {len(method_names())}; "
        "NEWFOUND_METHODS names modules with others"
    )


def test_two_names_may_share_a_class_through_their_presets() -> None:
    first, second = method_entry("uno-v1"), method_entry("uno-v2")
    assert first.method is second.method is UNO
    assert recipe_for("uno-v1", "").config != recipe_for("uno-v2", "").config


def test_a_method_is_described_by_its_module_or_by_what_it_says_itself() -> None:
    assert Entry("x", UNO).description.startswith("UNO: a unified objective")
    assert Entry("x", UNO, what="X: another.").description == "X: another."


@pytest.mark.parametrize(
    ("benchmark", "whose", "values"),
    [
        ("cifar10", "published", {"a": 1}),
        ("imagenet-30", "published", {"a": 2}),
        ("imagenet-30-a", "published", {"a": 2}),
        ("digits", "newfound", {"a": 3}),
        ("cifar100-20", "default", {}),
        ("imagenet", "default", {}),
        ("own", "default", {}),
        ("", "default", {}),
    ],
)
def test_whose_values_a_benchmark_gets(benchmark: str, whose: str, values: dict[str, int]) -> None:
    entry = Entry("x", UNO, {}, {"cifar10": {"a": 1}, "imagenet-30": {"a": 2}}, {"digits": {"a": 3}})
    assert entry.values_for(benchmark) == (whose, values)


def test_a_callers_values_win_over_the_papers_and_those_over_the_preset() -> None:
    assert recipe_for("uno-v1", "").flat()["lr"] == 0.1
    assert recipe_for("uno-v1", "imagenet-30-a").flat()["lr"] == 0.01
    assert recipe_for("uno-v1", "imagenet-30-a", {"lr": 7}).flat()["lr"] == 7


@pytest.mark.parametrize("name", method_names())
def test_every_stage_of_a_method_exists_and_has_a_schedule(name: str) -> None:
    method: type[Method] = method_entry(name).method
    *pretraining, own = method.schedules
    assert own == "discover"
    for stage in pretraining:
        assert not issubclass(stage_class(stage), Method)


@pytest.mark.parametrize(
    "benchmark", ["cifar10", "cifar100-20", "cifar100-50", "imagenet-30-a", "digits", "own"]
)
def test_the_matched_track_trains_all_methods_alike(benchmark: str) -> None:
    recipes = [recipe_for(name, benchmark, {"track": "matched"}) for name in method_names()]
    assert len({recipe.train["pretrain"] for recipe in recipes}) == 1
    assert len({recipe.train["discover"] for recipe in recipes if recipe.train["discover"].epochs}) == 1
    assert {recipe.run.encoder for recipe in recipes} == {"auto"}
    assert all(recipe.flat().get("small_crops", 0) == 0 for recipe in recipes)
    assert all(recipe.flat().get("rampup", 0) <= recipe.train["discover"].epochs for recipe in recipes)


def test_a_variation_may_change_nothing_on_a_benchmark() -> None:
    assert changes_nothing("iic", "cifar100-50", "appendix")
    assert not changes_nothing("iic", "cifar100-20", "appendix")
    assert not changes_nothing("iic", "cifar100-50", "no variation")


def test_the_code_of_a_method_changes_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_METHODS", {})
    module = ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", module)
    codes = []
    for text in (None, "one", "other", "one"):
        if text is not None:
            module.__file__ = str(tmp_path / "mine.py")
            (tmp_path / "mine.py").write_text(text)
        register("own")(method_class("mine"))
        codes.append(method_entry("own").code)
    assert codes[0] == ""
    assert codes[1] == codes[3] != codes[2] != ""
