"""Colours change as Pillow changes them.

Tolerance in grey levels: 0 for grey, solarise and equalise; 1 for one adjustment of the jitter, whose results
are cut down to whole levels, so that the last bit of a float may decide; 4 for the whole jitter in any order.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from newfound.data.augment.colour import (
    BRIGHTNESS,
    CONTRAST,
    HUE,
    SATURATION,
    Equalise,
    Grey,
    Jitter,
    Solarise,
    equalise,
    jitter,
    luma,
    shift_hue,
    solarise,
)

Edit = Callable[[Image.Image], Image.Image]
Pictures = Callable[[int, int, int], Tensor]
Pillow = Callable[[Tensor, Iterable[Edit]], Tensor]
FACTORS = (0.0, 0.2, 0.6, 0.83, 1.0, 1.15, 1.4, 2.0)
SHIFTS = (-0.5, -0.1, -0.03, 0.0, 0.001, 0.05, 0.1, 0.25, 0.5)


def _turn_hue(image: Image.Image, shift: float) -> Image.Image:
    """The usual hue adjustment of a Pillow image: add to the 8-bit hue, modulo 256."""
    hue, saturation, value = image.convert("HSV").split()
    turned = (np.asarray(hue).astype(int) + int(shift * 255)) % 256
    return Image.merge("HSV", (Image.fromarray(turned.astype(np.uint8)), saturation, value)).convert("RGB")


def _adjust(image: Image.Image, which: int, factor: float) -> Image.Image:
    if which == HUE:
        return _turn_hue(image, factor)
    enhance = {
        BRIGHTNESS: ImageEnhance.Brightness,
        CONTRAST: ImageEnhance.Contrast,
        SATURATION: ImageEnhance.Color,
    }
    return enhance[which](image).enhance(factor)


def _adjusted(order: Iterable[int], factors: list[float]) -> Edit:
    def edit(image: Image.Image) -> Image.Image:
        for which in order:
            image = _adjust(image, which, factors[which])
        return image

    return edit


@pytest.mark.parametrize("which", [BRIGHTNESS, CONTRAST, SATURATION])
def test_one_adjustment_is_within_one_level(which: int, pictures: Pictures, pillow: Pillow) -> None:
    factors = [factor for factor in FACTORS for _ in range(10)]
    images = pictures(len(factors), 16, 21)
    order = torch.full((len(factors), 1), which)
    result = jitter(images, order, torch.tensor(factors)[:, None].expand(-1, 3))
    expected = pillow(images, [_adjusted([which], [factor] * 3) for factor in factors])
    assert (result - expected).abs().max() <= 1
    assert (result != expected).float().mean() < 0.001


@pytest.mark.parametrize("shift", SHIFTS)
def test_hue_is_within_one_level_all_over_the_colours(shift: float, pillow: Pillow) -> None:
    levels = torch.arange(0, 256, 5.0)
    cube = torch.cartesian_prod(levels, levels, levels).T.reshape(1, 3, len(levels), -1)
    result = shift_hue(cube, torch.tensor([shift]))
    expected = pillow(cube, [lambda image: _turn_hue(image, shift)])
    assert (result - expected).abs().max() <= 1
    assert (result != expected).float().mean() < 0.001


def test_jitter_in_every_order_is_within_four_levels(pictures: Pictures, pillow: Pillow) -> None:
    orders = [order for order in permutations(range(4)) for _ in range(10)]
    images = pictures(len(orders), 16, 16)
    u = torch.rand(len(orders), 4, generator=torch.Generator().manual_seed(0))
    factors = torch.tensor([0.6, 0.6, 0.8, -0.1]) + u * torch.tensor([0.8, 0.8, 0.4, 0.2])
    expected = pillow(
        images, [_adjusted(order, row) for order, row in zip(orders, factors.tolist(), strict=True)]
    )
    difference = (jitter(images, torch.tensor(orders), factors) - expected).abs()
    assert difference.max() <= 4
    assert (difference > 0).float().mean() < 0.001


def test_grey_is_exact(pictures: Pictures, pillow: Pillow) -> None:
    images = pictures(30, 16, 16)
    expected = pillow(images, [lambda image: image.convert("L").convert("RGB")] * 30)
    assert torch.equal(luma(images).expand_as(images), expected)
    draws = torch.arange(30)[:, None] / 30
    assert torch.equal(Grey(0.5)(images, draws), torch.cat([expected[:15], images[15:]]))


def test_solarise_is_exact(pictures: Pictures, pillow: Pillow) -> None:
    thresholds = torch.linspace(0, 255.9, 60)
    images = pictures(60, 16, 16)

    def solarised(threshold: float) -> Edit:
        # Pillow declares a whole threshold; levels are whole, so the next whole one is the same.
        return lambda image: ImageOps.solarize(image, math.ceil(threshold))

    expected = pillow(images, [solarised(threshold) for threshold in thresholds.tolist()])
    assert torch.equal(solarise(images, thresholds), expected)
    u = torch.stack([torch.arange(60) % 2 * 0.5, thresholds / 256], 1)
    drawn = Solarise(0.3)(images, u)
    assert torch.equal(drawn[::2], expected[::2])
    assert torch.equal(drawn[1::2], images[1::2])


@pytest.mark.parametrize("shape", [(8, 8), (16, 16), (18, 18), (20, 25), (32, 32), (40, 61)])
def test_equalise_is_exact(shape: tuple[int, int], pictures: Pictures, pillow: Pillow) -> None:
    images = pictures(40, *shape)
    assert torch.equal(equalise(images), pillow(images, [ImageOps.equalize] * 40))


@settings(max_examples=40, deadline=None)
@given(
    low=st.integers(0, 255),
    spread=st.integers(1, 256),
    side=st.integers(1, 40),
    seed=st.integers(0, 2**31 - 1),
)
def test_equalise_is_exact_on_any_range(low: int, spread: int, side: int, seed: int) -> None:
    image = np.random.default_rng(seed).integers(low, min(low + spread, 256), (side, side, 3), dtype=np.uint8)
    expected = np.asarray(ImageOps.equalize(Image.fromarray(image)))
    result = equalise(torch.from_numpy(image).permute(2, 0, 1)[None].float())
    assert np.array_equal(result[0].permute(1, 2, 0).numpy(), expected)


def test_equalise_takes_each_sample_with_its_probability(pictures: Pictures) -> None:
    batch, p = 2000, 0.1
    images = pictures(batch, 18, 18)
    u = torch.rand(batch, 1, generator=torch.Generator().manual_seed(0))
    expected = torch.where(u[:, :, None, None] < p, equalise(images), images)
    assert torch.equal(Equalise(p)(images, u), expected)
    assert (u < p).sum() == pytest.approx(p * batch, abs=4 * (batch * p) ** 0.5)
    assert Equalise(p).candidates(batch) < batch / 5
    assert Equalise(p).candidates(3) == 3


def test_jitter_draws_factors_orders_and_samples(pictures: Pictures, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Tensor] = []

    def spy(images: Tensor, order: Tensor, factors: Tensor) -> Tensor:
        drawn.extend((order, factors))
        return images - 1

    monkeypatch.setattr("newfound.data.augment.colour.jitter", spy)
    u = torch.rand(20_000, 9, generator=torch.Generator().manual_seed(0))
    images = torch.ones(20_000, 3, 1, 1)
    result = Jitter(0.4, 0.3, 1.5, 0.1, p=0.6)(images, u)
    order, factors = drawn
    assert (result == 0).float().mean() == pytest.approx(0.6, abs=0.015)
    orders = Counter(map(tuple, order.tolist()))
    assert len(orders) == 24
    assert list(orders.values()) == pytest.approx([len(order) / 24] * 24, abs=4 * 29)
    assert factors.amin(0) == pytest.approx([0.6, 0.7, 0, -0.1], abs=1e-3)
    assert factors.amax(0) == pytest.approx([1.4, 1.3, 2.5, 0.1], abs=1e-3)
    assert factors.mean(0) == pytest.approx([1, 1, 1.25, 0], abs=0.025)


def test_jitter_without_hue_leaves_it_out(pictures: Pictures, pillow: Pillow) -> None:
    images = pictures(20, 8, 8)
    u = torch.zeros(20, 9)
    u[:, 1:5] = torch.tensor([0.3, 0.2, 0.1, 0.0])
    expected = pillow(images, [_adjusted((SATURATION, CONTRAST, BRIGHTNESS), [0.5, 0.75, 1.0])] * 20)
    assert (Jitter(0.5, 0.25, 0.0, 0.0, p=1.0)(images, u) - expected).abs().max() <= 1
