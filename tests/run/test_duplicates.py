"""Near-duplicates: what counts as one, and that the hashes find what comparing all pairs finds."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageEnhance
from sklearn.datasets import load_digits, load_sample_images

from newfound.run.finish import ALIKE, SIDE, Levels, near_duplicates


def levels_of(*images: Image.Image) -> Levels:
    small = (image.convert("L").resize((SIDE, SIDE), Image.Resampling.BILINEAR) for image in images)
    return np.stack([np.asarray(each) for each in small])


def as_jpeg(image: Image.Image, quality: int) -> Image.Image:
    file = BytesIO()
    image.save(file, "jpeg", quality=quality)
    return Image.open(file)


def test_size_compression_and_brightness_do_not_count() -> None:
    photographs = [Image.fromarray(pixels) for pixels in load_sample_images().images]
    images = []
    for each in photographs:
        half = each.resize((each.width // 2, each.height // 2))
        same = [each, as_jpeg(each, 60), half, as_jpeg(half, 70), ImageEnhance.Brightness(each).enhance(1.1)]
        box = (each.width // 10, each.height // 10, each.width * 9 // 10, each.height * 9 // 10)
        images += [*same, each.crop(box), each.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
    assert near_duplicates(levels_of(*images)) == [[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]]


def test_images_of_one_kind_or_of_one_colour_are_none() -> None:
    digits = (load_digits().images * 15).astype(np.uint8).repeat(SIDE // 8, 1).repeat(SIDE // 8, 2)
    found = near_duplicates(digits)
    assert len(found) < 5
    assert near_duplicates(np.full((50, SIDE, SIDE), 255, np.uint8)) == []
    assert near_duplicates(np.zeros((0, SIDE, SIDE), np.uint8)) == []


@pytest.mark.parametrize("noise", [2, 6])
def test_the_hashes_find_nearly_all_pairs(noise: int) -> None:
    random = np.random.default_rng(0)
    first = random.integers(60, 196, (400, SIDE, SIDE))
    levels = np.concatenate([first, first + random.normal(0, noise, first.shape)]).astype(np.uint8)
    steps = np.concatenate([np.diff(levels.astype(float), axis=axis).reshape(800, -1) for axis in (1, 2)], 1)
    steps /= np.linalg.norm(steps, axis=1, keepdims=True)
    rows, others = np.nonzero(np.triu(steps @ steps.T > ALIKE, 1))
    pairs = {(int(a), int(b)) for a, b in zip(rows, others, strict=True)}
    assert len(pairs) > 350
    found = {(a, b) for a, b in near_duplicates(levels)}
    assert found <= pairs
    assert len(found) > 0.95 * len(pairs)
