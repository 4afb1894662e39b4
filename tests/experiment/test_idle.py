"""Settings without effect are named, with those that have it."""

import pytest

from newfound.core.registry import recipe_for
from newfound.experiment.idle import idle_line

HAVE = "epochs has no effect here: "


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("iic", f"{HAVE}only pretrain is trained; pretrain.epochs has"),
        ("kmeans", f"{HAVE}only rotnet, known are trained; rotnet.epochs, known.epochs have"),
        ("joint", f"{HAVE}nothing is trained"),
    ],
)
def test_what_pretraining_does_not_use_is_named(method: str, said: str) -> None:
    recipe = recipe_for(method, "digits")
    assert idle_line(recipe, recipe.pretraining, ["epochs", "seed"]) == said


def test_nothing_is_said_of_what_it_uses() -> None:
    assert idle_line(recipe_for("iic", ""), ["pretrain"], ["pretrain.lr", "encoder", "track"]) == ""


def test_stages_that_are_not_trained_and_other_settings_of_discovery_are_named_too() -> None:
    given = ["centres.lr", "constraints.alpha", "evaluate_every", "seed"]
    said = "centres.lr, constraints.alpha, evaluate_every have no effect here: only known is trained"
    assert idle_line(recipe_for("dtc", ""), ["known"], given) == said
