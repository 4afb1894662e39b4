"""Settings: overrides from anywhere are checked, and what a run used can be read back."""

import re
from typing import Any

import pytest

from newfound.core.errors import UsageError
from newfound.core.registry import method_names, recipe_for
from newfound.core.settings import RunConfig, TrainConfig, meanings, override


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
def test_text_becomes_its_type(method: str, argument: str, value: Any) -> None:
    key, _, text = argument.partition("=")
    result = recipe_for(method, "", {key: text}).flat()[key]
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
    ("method", "key", "answer"),
    [
        ("iic", "alhpa", "Did you mean 'alpha'?"),
        ("iic", "pretrain.epoch", "Did you mean 'pretrain.epochs'?"),
        ("iic", "pretrian.lr", "Did you mean 'pretrain.lr'?"),
        ("iic", "discover.epochs", "Did you mean 'epochs'?"),
        ("kmeans", "xyzzy", "Unknown setting 'xyzzy'."),
        ("rs+", "pretrain.epochs", "rotnet and known"),
        ("joint", "known.epochs", "before discovery: none"),
        ("iic", "estimate.theta", "only applies where"),
    ],
)
def test_an_unknown_key_is_answered(method: str, key: str, answer: str) -> None:
    with pytest.raises(UsageError, match=re.escape(answer)):
        recipe_for(method, "", {key: 1})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("alpha", "-1"),
        ("alpha", "much"),
        ("alpha", "inf"),
        ("epochs", "1.5"),
        ("epochs", -1),
        ("batch_size", "0"),
        ("large_crops", "1"),
        ("lr", "0"),
        ("lr", "nan"),
        ("tau", [1]),
        ("intra", "l2"),
        ("precision", "fp8"),
        ("lr_falls", "0.7,0.5"),
        ("pretrain.lr", "-3"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_setting(key: str, value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        recipe_for("iic", "", {key: value})
    message = caught.value.message
    assert message.startswith(f"Setting {key!r} must be ")
    assert message.endswith(f", got {value!r}.")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("epochs", "two", "a whole number"),
        ("epochs", 1.5, "a whole number"),
        ("epochs", -1, "at least 0"),
        ("lr", "fast", "a number"),
        ("lr", 0, "greater than 0"),
        ("momentum", 1, "less than 1"),
        ("batch_experts", "maybe", "true or false"),
        ("encoder", 5, "text"),
        ("optimiser", "adamw", "'sgd', 'nesterov' or 'adam'"),
        ("lr_falls", "0.7,0.5", "increasing fractions such as 0.5,0.75"),
    ],
)
def test_a_wrong_value_is_told_in_plain_words(key: str, value: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        recipe_for("comex", "", {key: value})
    assert caught.value.message == f"Setting {key!r} must be {words}, got {value!r}."


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
        with pytest.raises(UsageError, match=f"'{key}' must be .*, got '{value}'"):
            recipe_for(method, "", {key: value})


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
