"""Crops, flips, translations and turns are those of Pillow; boxes are those of the definition.

Tolerance in grey levels: 0 for everything that moves pixels; 1 where they are resized, and 0 when Pillow too
resizes the width before the height.
"""

import math
from collections.abc import Callable, Iterable
from itertools import product

import pytest
import torch
from PIL import Image, ImageOps
from torch import Tensor

from newfound.core.errors import DataError
from newfound.data.augment.geometry import (
    Crop,
    Flip,
    OneOf,
    Padded,
    Resized,
    Translate,
    resample,
    rotate4,
    translate,
)

Edit = Callable[[Image.Image], Image.Image]
Pictures = Callable[[int, int, int], Tensor]
Pillow = Callable[[Tensor, Iterable[Edit]], Tensor]
Box = tuple[int, int, int, int]


def _boxes(boxes: list[Box]) -> Tensor:
    return torch.tensor(boxes, dtype=torch.float32)


def _resized(box: Box, size: int) -> Edit:
    left, top, width, height = box
    corners = left, top, left + width, top + height
    return lambda image: image.crop(corners).resize((size, size), Image.Resampling.BILINEAR)


def _width_first(box: Box, size: int) -> Edit:
    """The same, each axis by itself: Pillow 13 starts with the height where that shrinks more."""
    left, top, width, height = box
    across = (left, top, left + width, top + height), (size, height)
    return lambda image: (
        image.crop(across[0])
        .resize(across[1], Image.Resampling.BILINEAR)
        .resize((size, size), Image.Resampling.BILINEAR)
    )


@pytest.mark.parametrize("shape", [(32, 32), (36, 29)])
def test_crop_with_padding_is_exact(shape: tuple[int, int], pictures: Pictures, pillow: Pillow) -> None:
    height, width = shape
    size, pad = 32, 4
    places = list(product(range(-pad, width + pad - size + 1), range(-pad, height + pad - size + 1)))
    images = pictures(len(places), height, width)

    def cut(left: int, top: int) -> Edit:
        box = (left + pad, top + pad, left + pad + size, top + pad + size)
        return lambda image: ImageOps.expand(image, pad).crop(box)

    expected = pillow(images, [cut(*place) for place in places])
    assert torch.equal(resample(images, _boxes([(*place, size, size) for place in places]), size), expected)


@pytest.mark.parametrize("size", [5, 18, 32, 50])
@pytest.mark.parametrize("shape", [(32, 32), (24, 41)])
def test_resized_crop(shape: tuple[int, int], size: int, pictures: Pictures, pillow: Pillow) -> None:
    height, width = shape
    sides = [(w, h) for w in range(1, width + 1, 2) for h in range(1, height + 1, 3)]
    boxes = [((7 * i) % (width - w + 1), (5 * i) % (height - h + 1), w, h) for i, (w, h) in enumerate(sides)]
    images = pictures(len(boxes), height, width)
    result = resample(images, _boxes(boxes), size)
    assert torch.equal(result, pillow(images, [_width_first(box, size) for box in boxes]))
    assert (result - pillow(images, [_resized(box, size) for box in boxes])).abs().max() <= 1


def test_flip_is_exact_and_only_where_drawn(pictures: Pictures, pillow: Pillow) -> None:
    images = pictures(10, 9, 12)
    draws = torch.linspace(0, 0.9, 10)[:, None]
    flipped = pillow(images, [ImageOps.mirror] * 10)
    assert torch.equal(Flip(0.5)(images, draws), torch.cat([flipped[:5], images[5:]]))


def _mirrored_around(image: Image.Image, right: int, down: int) -> Image.Image:
    """Nine copies, mirrored and sharing their borders; the middle one moved by (right, down)."""
    size = image.width
    canvas = Image.new("RGB", (3 * size, 3 * size))
    for column, row in product(range(3), repeat=2):
        copy = ImageOps.mirror(image) if column != 1 else image
        copy = ImageOps.flip(copy) if row != 1 else copy
        canvas.paste(copy, (column * (size - 1), row * (size - 1)))
    left, top = size - 1 - right, size - 1 - down
    return canvas.crop((left, top, left + size, top + size))


def test_translation_with_reflection_is_exact(pictures: Pictures, pillow: Pillow) -> None:
    moves = list(product(range(-4, 5), repeat=2))
    images = pictures(len(moves), 16, 16)

    def moved(right: int, down: int) -> Edit:
        return lambda image: _mirrored_around(image, right, down)

    expected = pillow(images, [moved(*move) for move in moves])
    right, down = torch.tensor(moves, dtype=torch.float32).unbind(1)
    assert torch.equal(translate(images, right, down, margin=4), expected)
    # The same moves from the middles of the 9 × 9 equal parts of the unit square.
    assert torch.equal(Translate(4)(images, torch.stack([right, down], 1).add(4.5).div(9)), expected)


def test_four_turns_are_exact(pictures: Pictures, pillow: Pillow) -> None:
    images = pictures(5, 8, 8)
    turns = Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270

    def turned(turn: Image.Transpose) -> Edit:
        return lambda image: image.transpose(turn)

    expected = torch.stack([images, *(pillow(images, [turned(turn)] * 5) for turn in turns)])
    assert torch.equal(rotate4(images), expected)


def _resized_box(u: list[float], low: float, high: float, height: int, width: int) -> Box:
    """The definition of the random resized crop, with its draws given."""
    for k in range(10):
        area = height * width * (low + (high - low) * u[k])
        ratio = math.exp(math.log(3 / 4) + (math.log(4 / 3) - math.log(3 / 4)) * u[10 + k])
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return math.floor(u[20] * (width - w + 1)), math.floor(u[21] * (height - h + 1)), w, h
    w, h = width, height
    if width / height < 3 / 4:
        h = round(width / (3 / 4))
    elif width / height > 4 / 3:
        w = round(height * (4 / 3))
    return (width - w) // 2, (height - h) // 2, w, h


@pytest.mark.parametrize("shape", [(32, 32), (8, 8), (20, 31), (64, 10), (10, 64)])
@pytest.mark.parametrize("scale", [(0.5, 1.0), (0.08, 0.5), (1.0, 1.0)])
def test_boxes_follow_the_definition(shape: tuple[int, int], scale: tuple[float, float]) -> None:
    u = torch.rand(300, 22, generator=torch.Generator().manual_seed(0))
    boxes = Resized(*scale).draw(u, *shape, size=32)
    assert boxes.tolist() == [list(map(float, _resized_box(row, *scale, *shape))) for row in u.tolist()]


def test_choice_is_per_sample(pictures: Pictures) -> None:
    images = pictures(200, 12, 12)
    crop = Crop(12, OneOf(Padded(2), Resized(0.2, 0.4)))
    u = torch.rand(200, crop.noise, generator=torch.Generator().manual_seed(3))
    padded = Crop(12, Padded(2))(images, u[:, 1:3])
    resized = Crop(12, Resized(0.2, 0.4))(images, u[:, 3:])
    first = u[:, 0] < 0.5
    assert 70 < first.sum() < 130
    assert torch.equal(crop(images, u), torch.where(first[:, None, None, None], padded, resized))


def test_crops_larger_than_the_padded_images_are_refused() -> None:
    with pytest.raises(DataError, match="at least 24 x 24, got 20 x 30"):
        Padded(4).draw(torch.rand(2, 2), 30, 20, size=32)
