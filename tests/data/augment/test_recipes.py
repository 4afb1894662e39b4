"""The recipes are those of the papers, for every kind of data under the same names."""

from itertools import product

import pytest
from sklearn.datasets import load_digits

from newfound.core.errors import UsageError
from newfound.data.augment.colour import Equalise, Grey, Jitter, Solarise
from newfound.data.augment.geometry import Blur, Crop, Flip, OneOf, Padded, Resized, Translate
from newfound.data.augment.recipes import NORMALISATION, Recipe, recipe_named

NAMES = ("none", "weak", "twice", "twice-reflect", "v1", "v2")


def test_the_recipe_of_iic_on_cifar() -> None:
    assert recipe_named("v2", "cifar", 32) == Recipe(
        large=(
            Crop(32, OneOf(Padded(4), Resized(0.5, 1.0))),
            Flip(0.5),
            Jitter(0.4, 0.4, 0.2, 0.1, p=0.6),
            Solarise(0.1),
            Equalise(0.1),
        ),
        small=(
            Crop(18, Resized(0.3, 0.8)),
            Flip(0.5),
            Jitter(0.4, 0.4, 0.2, 0.1, p=0.8),
            Solarise(0.2),
            Equalise(0.2),
        ),
    )


def test_the_recipe_of_iic_on_imagenet() -> None:
    jitters = [Jitter(0.4, 0.4, 0.2, 0.1, p=p) for p in (0.5, 0.8)]
    assert recipe_named("v2", "imagenet", 224) == Recipe(
        large=(Crop(224, Resized(0.5, 1.0)), Flip(0.5), jitters[0], Grey(0.2), Blur(0.2, 0.1, 2.0)),
        small=(Crop(96, Resized(0.08, 0.5)), Flip(0.5), jitters[1], Grey(0.2), Blur(0.5, 0.1, 2.0)),
    )


def test_lengths_follow_the_size_of_the_images() -> None:
    assert recipe_named("weak", "cifar", 64).large == (Crop(64, Padded(8)), Flip(0.5))
    assert recipe_named("twice-reflect", "cifar", 32).large == (Translate(4), Flip(0.5))
    assert recipe_named("twice-reflect", "imagenet", 224).large[1] == Translate(4)


@pytest.mark.parametrize(("name", "size"), list(product(NAMES, (8, 12, 32))))
def test_digits_are_not_mirrored_nor_coloured(name: str, size: int) -> None:
    recipe = recipe_named(name, "digits", size)
    for op in (*recipe.large, *(recipe.small or ())):
        assert isinstance(op, Crop | Translate | Jitter)
        assert not isinstance(op, Jitter) or op.saturation == op.hue == 0


def test_normalisation_of_digits() -> None:
    ink = load_digits().data / 16
    mean, std = NORMALISATION["digits"]
    assert mean == pytest.approx([ink.mean()] * 3, abs=1e-3)
    assert std == pytest.approx([ink.std()] * 3, abs=1e-3)


def test_an_unknown_name() -> None:
    with pytest.raises(UsageError, match="Unknown augmentation recipe 'v3'"):
        recipe_named("v3", "cifar", 32)
