"""Settings: overrides from anywhere are checked, and what a run used can be read back."""

from typing import Any

import pytest

import newfound.experiment  # noqa: F401 (registers the methods)
from newfound.core.config import RunConfig, TrainConfig, meanings, override, parse_overrides
from newfound.core.errors import UsageError
from newfound.core.registry import method_names, recipe_for


@pytest.mark.parametrize(
    ("method", "argument", "value"),
    [
        ("iic", "alpha=0.1", 0.1),
        ("iic", "alpha=0", 0.0),
        ("iic", "lr=1e-3", 1e-3),
        ("iic", "epochs=7", 7),
        ("iic", "intra=mse", "mse"),
        ("iic", "seed=5", 5),
        ("iic", "pretrain.lr=0.3", 0.3),
        ("uno-v2", "normalise_features=true", True),
        ("uno-v1", "normalise_features=false", False),
    ],
)
def test_text_from_the_command_line_becomes_its_type(method: str, argument: str, value: Any) -> None:
    overrides = parse_overrides([argument])
    (key,) = overrides
    result = recipe_for(method, "", overrides).flat()[key]
    assert result == value
    assert type(result) is type(value)


def test_an_override_changes_its_own_setting_only() -> None:
    usual, changed = (recipe_for("iic", "cifar10", o).flat() for o in ({}, {"alpha": 0.5}))
    assert {key for key in usual if usual[key] != changed[key]} == {"alpha"}


def test_pretraining_has_settings_of_its_own() -> None:
    recipe = recipe_for("iic", "cifar10", {"epochs": 3, "pretrain.epochs": 4})
    assert (recipe.train["discover"].epochs, recipe.train["pretrain"].epochs) == (3, 4)
    assert recipe_for("iic", "cifar10", {"epochs": 3}).train["pretrain"].epochs == 200


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("alhpa", "alpha"),
        ("epoch", "epochs"),
        ("pretrain.epoch", "pretrain.epochs"),
        ("pretrian.lr", "pretrain.lr"),
        ("overclusters", "overcluster"),
    ],
)
def test_unknown_key_names_the_nearest(key: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        recipe_for("iic", "", {key: "1"})
    assert (
        str(caught.value) == f"unknown setting {key!r}; did you mean {near!r}? newfound methods iic lists all"
    )


def test_unknown_stage_names_those_there_are() -> None:
    with pytest.raises(
        UsageError, match=r"'pretrain.epochs'; what rs\+ trains before discovery: rotnet and known"
    ):
        recipe_for("rs+", "", {"pretrain.epochs": 1})
    with pytest.raises(
        UsageError, match=r"'known.epochs'; what .* before discovery: pretrain; newfound methods iic"
    ):
        recipe_for("iic", "", {"known.epochs": 1})


def test_unknown_prefixes_that_mean_something_elsewhere() -> None:
    with pytest.raises(
        UsageError, match=r"'discover.epochs'; settings of discovery have no prefix: epochs; "
    ):
        recipe_for("iic", "", {"discover.epochs": 1})
    with pytest.raises(
        UsageError, match=r"'estimate.theta'; it needs --num-novel auto, or newfound estimate"
    ):
        recipe_for("iic", "", {"estimate.theta": 0.1})


@pytest.mark.parametrize("group", ["pretrain", "constraints", "estimate"])
def test_a_group_of_settings_is_none_itself(group: str) -> None:
    with pytest.raises(UsageError, match=rf"in Python \*\*\{{'{group}\.KEY': VALUE\}}; newfound methods iic"):
        recipe_for("iic", "", {group: {"epochs": 3}})


def test_a_recipe_is_no_setting() -> None:
    with pytest.raises(
        UsageError, match=r"'recipe'; .* newfound reproduce --recipe, .*newfound methods iic lists"
    ):
        recipe_for("iic", "", {"recipe": "fast"})


def test_unknown_key_without_a_near_one_says_where_they_are_listed() -> None:
    with pytest.raises(UsageError, match=r"unknown setting 'xyzzy'; newfound methods kmeans lists all"):
        recipe_for("kmeans", "", {"xyzzy": 1})


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("alpha", "-1", "alpha: input should be greater than or equal to 0; got '-1'"),
        (
            "alpha",
            "much",
            "alpha: input should be a valid number, unable to parse string as a number; got 'much'",
        ),
        ("epochs", "1.5", "epochs: input should be a valid integer"),
        ("epochs", -1, "epochs: input should be greater than or equal to 0; got -1"),
        ("batch_size", "0", "batch_size: input should be greater than or equal to 1; got '0'"),
        ("large_crops", "1", "large_crops: input should be greater than or equal to 2; got '1'"),
        ("lr", "0", "lr: input should be greater than 0; got '0'"),
        ("lr", "nan", "lr: input should be a finite number; got 'nan'"),
        ("alpha", "inf", "alpha: input should be a finite number; got 'inf'"),
        ("tau", [1], r"tau: input should be a valid number; got [1]"),
        ("intra", "l2", "intra: input should be 'skld' or 'mse'; got 'l2'"),
        ("precision", "fp8", "precision: input should be 'auto', 'float32', 'bf16' or 'fp16'; got 'fp8'"),
        ("pretrain.lr", "-3", "pretrain.lr: input should be greater than 0; got '-3'"),
    ],
)
def test_wrong_value_is_one_clear_error(key: str, value: Any, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        recipe_for("iic", "", {key: value})
    message = str(caught.value)
    assert message.startswith(says)
    assert message.endswith("; newfound methods iic lists the settings")
    assert "\n" not in message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("method", "key", "wrong", "right"),
    [
        ("ncl", "similarity", ("7", "nan", "-1.1", "1.1"), ("-1", "-0.5", "0.95", "1")),
        ("openmix", "threshold", ("7", "nan", "-0.1", "1.1"), ("0", "0.9", "1")),
    ],
    ids=["a cosine", "a share"],
)
def test_thresholds_are_of_what_they_are_compared_with(
    method: str, key: str, wrong: tuple[str, ...], right: tuple[str, ...]
) -> None:
    for value in right:
        recipe_for(method, "", {key: value})
    for value in wrong:
        with pytest.raises(UsageError, match=f"{key}: input should be .*; got '{value}'"):
            recipe_for(method, "", {key: value})


@pytest.mark.parametrize("argument", ["alpha", "=1", ""])
def test_a_setting_must_be_key_and_value(argument: str) -> None:
    with pytest.raises(UsageError, match=f"must be key=value; got {argument!r}; for example epochs=50"):
        parse_overrides(["lr=1", argument])


def test_a_setting_is_given_once() -> None:
    with pytest.raises(UsageError, match="given once; got alpha=1 and alpha=2; leave one out"):
        parse_overrides(["alpha=1", "lr=1", "alpha=2"])


def test_a_value_may_hold_equals_signs() -> None:
    assert parse_overrides(["encoder=a=b", "lr="]) == {"encoder": "a=b", "lr": ""}


@pytest.mark.parametrize("method", method_names())
@pytest.mark.parametrize("benchmark", ["digits", "cifar100-20", "imagenet-30-b", "own"])
def test_flat_settings_make_the_same_recipe_again(method: str, benchmark: str) -> None:
    recipe = recipe_for(method, benchmark, {"seed": 9, "mode": "eager"})
    assert recipe_for(method, "", recipe.flat()) == recipe


def test_overriding_leaves_the_old_recipe_alone() -> None:
    recipe = recipe_for("iic", "")
    before = recipe.flat()
    assert override(recipe, {"epochs": 1, "pretrain.lr": 9.0, "tau": 2.0}) != recipe
    assert recipe.flat() == before


def test_every_setting_says_what_it_means() -> None:
    for config in (TrainConfig, RunConfig, *(type(recipe_for(name, "").config) for name in method_names())):
        assert all(meaning for meaning in meanings(config).values())
