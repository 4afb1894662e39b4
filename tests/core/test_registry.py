"""Registries, plug-ins, and the recipes of registered methods."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from newfound.core.errors import UsageError
from newfound.core.learner import Method
from newfound.core.registry import (
    ENCODERS,
    METHODS,
    STAGES,
    VARIABLE,
    Entry,
    Registry,
    changes_nothing,
    load_plugins,
    method_entry,
    method_names,
    recipe_for,
    register,
    register_encoder,
    register_stage,
    stage_class,
)
from newfound.core.settings import TrainConfig
from newfound.methods.uno import UNO

ROOT = Path(__file__).parents[2]


def method_class(module: str, schedules: Mapping[str, TrainConfig] | None = None) -> Any:
    """A method as a file of that name defines it."""
    return type(
        "Own", (Method,), {"__module__": module, "schedules": schedules or {"discover": TrainConfig()}}
    )


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registries without anything in them, for as long as a test lasts."""
    for registry in (METHODS, STAGES, ENCODERS):
        monkeypatch.setattr(registry, "items", {})


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(
    ("add", "registry"), [(register, METHODS), (register_stage, STAGES), (register_encoder, ENCODERS)]
)
def test_a_name_has_one_definition_which_may_come_again(add: Any, registry: Registry[Any]) -> None:
    add("own")(method_class("mine"))
    add("own")(method_class("mine"))
    with pytest.raises(UsageError, match=r"'own' of other.Own is already taken by mine.Own"):
        add("own")(method_class("other"))
    assert list(registry.items) == ["own"]


@pytest.mark.parametrize("registry", [METHODS, STAGES, ENCODERS])
def test_an_unknown_name_is_answered_with_the_nearest(registry: Registry[Any]) -> None:
    name = registry.names()[0]
    with pytest.raises(UsageError, match=f"Unknown {registry.kind} '{name}x'. Did you mean '{name}'"):
        registry.get(f"{name}x")


def test_encoders_share_a_class_through_their_arguments_and_say_what_they_are_for() -> None:
    first, second = ENCODERS.get("resnet18")(), ENCODERS.get("resnet18-cifar")()
    assert type(first) is type(second)
    assert "CIFAR" in ENCODERS.descriptions["resnet18-cifar"]


def test_importing_the_registry_imports_no_torch() -> None:
    code = "import sys, newfound.cli.lists as c; c.catalogue(); print('torch' in sys.modules)"
    environment = os.environ | {VARIABLE: "", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


PLUGIN = """
from newfound.core.registry import register_encoder
from newfound.nn.encoders.small import SmallEncoder

@register_encoder("mine")
class Mine(SmallEncoder):
    "Mine alone."
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that Python imports from; what is registered there is gone after the test."""
    (tmp_path / "nf_apart.py").write_text(PLUGIN)
    (tmp_path / "nf_broken.py").write_text("1 / 0")
    monkeypatch.setattr(ENCODERS, "items", dict(ENCODERS.items))
    monkeypatch.delitem(sys.modules, "nf_apart", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_plug_in_comes_from_a_module_that_a_variable_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, " nf_apart ,")
    load_plugins(ENCODERS.group)
    assert ENCODERS.descriptions["mine"] == "Mine alone."
    for name, reason in {
        "nf_nowhere": "No module named 'nf_nowhere'",
        "nf_broken": "division by zero",
    }.items():
        monkeypatch.setenv(VARIABLE, f"nf_apart,{name}")
        with pytest.raises(UsageError, match=f"Cannot import '{name}', named in {VARIABLE}: {reason}."):
            load_plugins(ENCODERS.group)


def test_a_plug_in_comes_from_an_entry_point_and_a_broken_one_is_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    installed = folder / "apart-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: apart\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(
        "[newfound.encoders]\nbroken = nf_broken\nmine = nf_apart:Mine\n"
    )
    load_plugins(METHODS.group)
    assert "mine" not in ENCODERS.items
    load_plugins(ENCODERS.group)
    assert "mine" in ENCODERS.items
    assert caplog.messages == ["Ignoring the plug-in broken (nf_broken): division by zero"]


def test_names_are_these() -> None:
    assert set(method_names()) >= {"iic", "kmeans", "uno-v1", "uno-v2"}
    assert method_names() == sorted(method_names())


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
    assert all(int(recipe.flat().get("rampup", 0)) <= recipe.train["discover"].epochs for recipe in recipes)


def test_a_variation_may_change_nothing_on_a_benchmark() -> None:
    assert changes_nothing("iic", "cifar100-50", "appendix")
    assert not changes_nothing("iic", "cifar100-20", "appendix")
    assert not changes_nothing("iic", "cifar100-50", "no variation")


def test_a_method_has_the_versions_of_its_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_class("known"), "cache_version", 7)
    assert method_entry("rs").versions == {"rotnet": 1, "known": 7, "discover": 1}
