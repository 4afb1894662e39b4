"""Views have the promised shapes, depend on their own numbers only, and are the same compiled."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product

import pytest
import torch
from PIL import Image
from torch import Tensor

from newfound.core.errors import UsageError
from newfound.data.augment import NORMALISATION, Augmenter, evaluation_view
from newfound.data.augment.op import apply
from newfound.data.augment.recipes import recipe_named
from tests.marks import NEEDS_COMPILER

Pillow = Callable[[Tensor, Iterable[Callable[[Image.Image], Image.Image]]], Tensor]
MEAN, STD = NORMALISATION["cifar10"]
PLAIN = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
NAMES = ("none", "weak", "twice", "twice-reflect", "v1", "v2")
SMALL = {"cifar": 18, "imagenet": 14, "digits": 24}


def _images(count: int, height: int, width: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 3, height, width), dtype=torch.uint8, generator=generator)


def _noise(augmenter: Augmenter, views: int, count: int, seed: int = 0) -> Tensor:
    return torch.rand(views, count, augmenter.noise, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("kind", "name"), list(product(SMALL, NAMES)))
def test_shapes_and_levels(kind: str, name: str) -> None:
    small = 3 if name == "v2" else 0
    augmenter = Augmenter(name, kind, 32, 2, small, *PLAIN)
    views = augmenter(_images(4, 32, 32), _noise(augmenter, 2 + small, 4))
    side = SMALL[kind]
    assert [tuple(v.shape) for v in views] == [(2, 4, 3, 32, 32), (3, 4, 3, side, side)][: 2 if small else 1]
    for view in views:
        levels = 255 * view
        assert view.dtype == torch.float32
        assert levels.min() >= 0
        assert levels.max() <= 255.001
        torch.testing.assert_close(levels, levels.round(), atol=1e-3, rtol=0)


@pytest.mark.parametrize(("kind", "stored"), [("cifar", 32), ("imagenet", 37), ("digits", 32)])
def test_without_augmentation_the_view_is_that_of_the_evaluation(kind: str, stored: int) -> None:
    augmenter, images = Augmenter("none", kind, 32, 1, 0, MEAN, STD), _images(3, stored, stored)
    (views,) = augmenter(images, _noise(augmenter, 1, 3))
    assert torch.equal(views[0], evaluation_view(images, 32, kind, MEAN, STD))


def test_each_view_is_its_own_chain_normalised() -> None:
    augmenter = Augmenter("v2", "cifar", 32, 2, 2, MEAN, STD)
    images, noise = _images(6, 32, 32), _noise(augmenter, 4, 6)
    recipe = recipe_named("v2", "cifar", 32)
    assert recipe.small is not None
    mean, std = torch.tensor(MEAN)[:, None, None], torch.tensor(STD)[:, None, None]
    large, small = augmenter(images, noise)
    for chain, views, draws in ((recipe.large, large, noise[:2]), (recipe.small, small, noise[2:])):
        for view, u in zip(views, draws, strict=True):
            torch.testing.assert_close(view, (apply(chain, images.float(), u) / 255 - mean) / std)


def test_same_numbers_same_bits() -> None:
    augmenter = Augmenter("v2", "cifar", 32, 2, 2, MEAN, STD)
    images = _images(8, 32, 32)
    first, again = (augmenter(images, _noise(augmenter, 4, 8, seed=5)) for _ in range(2))
    other = augmenter(images, _noise(augmenter, 4, 8, seed=6))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(("kind", "name"), list(product(SMALL, NAMES)))
def test_nothing_depends_on_values(kind: str, name: str) -> None:
    """On tensors without data: shapes are static, no value reaches the host, no constant is elsewhere."""
    augmenter = Augmenter(name, kind, 32, 1, int(name == "v2"), MEAN, STD)
    images = torch.empty(8, 3, 32, 32, dtype=torch.uint8, device="meta")
    views = augmenter(images, torch.empty(1 + int(name == "v2"), 8, augmenter.noise, device="meta"))
    assert views[0].shape == (1, 8, 3, 32, 32)


@pytest.mark.slow
@NEEDS_COMPILER
def test_compiled_equals_eager() -> None:
    augmenter = Augmenter("v2", "cifar", 20, 2, 0, *PLAIN)
    images, noise = _images(16, 20, 20), _noise(augmenter, 2, 16)
    compiled = torch.compile(augmenter, fullgraph=True, dynamic=False)
    ((eager,), (fast,)) = augmenter(images, noise), compiled(images, noise)
    # A level that lies between two whole numbers by one bit may fall to either; what follows may spread it.
    differs = 255 * (eager - fast).abs() > 1e-2
    assert differs.float().mean() < 0.001


@pytest.mark.parametrize("kind", SMALL)
def test_evaluation_leaves_images_of_the_right_size(kind: str) -> None:
    images = _images(3, 16, 16)
    expected = torch.stack([(images[:, c] / 255 - MEAN[c]) / STD[c] for c in range(3)], 1)
    torch.testing.assert_close(evaluation_view(images, 16, kind, MEAN, STD), expected)


def test_evaluation_crops_imagenet_and_resizes_the_rest(pillow: Pillow) -> None:
    images = _images(3, 20, 25)
    cropped = evaluation_view(images, 16, "imagenet", *PLAIN)
    torch.testing.assert_close(cropped, images[..., 2:18, 4:20] / 255)
    for kind, size in (("cifar", 10), ("imagenet", 28)):
        square = pillow(images, [lambda image: image.crop((2, 0, 22, 20))] * 3)
        resize = partial(Image.Image.resize, size=(size, size), resample=Image.Resampling.BILINEAR)
        view = evaluation_view(images, size, kind, *PLAIN)
        assert (255 * view - pillow(square, [resize] * 3)).abs().max() < 1.001


def test_small_crops_need_a_recipe_that_has_them() -> None:
    with pytest.raises(UsageError, match="'weak' has no small crops"):
        Augmenter("weak", "cifar", 32, 2, 2, MEAN, STD)
