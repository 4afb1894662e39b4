"""Draw images for a first try: five kinds of shapes with labels, a pile with four more, a few for later.

python shapes.py [FOLDER]   # writes known/, pile/ and new-images/ to FOLDER or the current folder
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

KNOWN = ("circle", "cross", "hexagon", "square", "triangle")
NEW = ("arrow", "heart", "moon", "star")


def main(folder: Path, labelled: int = 30, known: int = 20, new: int = 40, later: int = 2) -> None:
    """Draw this many images of each shape; `known` is the number in the pile of each known shape."""
    random, number = np.random.default_rng(0), 0
    for shape in KNOWN:
        for _ in range(labelled):
            draw(shape, random, folder / "known" / shape / f"IMG_{number:04}.jpg")
            number += 1
    pile = random.permutation(np.repeat([*KNOWN, *NEW], [*[known] * len(KNOWN), *[new] * len(NEW)]))
    for target, shapes in (("pile", pile.tolist()), ("new-images", [*KNOWN, *NEW] * later)):
        for shape in shapes:
            draw(shape, random, folder / target / f"IMG_{number:04}.jpg")
            number += 1


def draw(shape: str, random: np.random.Generator, path: Path) -> None:
    """Draw a shape of random colour, size and place on a blurred background, light on dark or vice versa."""
    size = [(320, 240), (240, 320), (280, 280)][random.integers(3)]
    dark = random.random() < 0.5
    noise = random.integers(0, 90, (5, 6, 3)) + (0 if dark else 165)
    image = Image.fromarray(noise.astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)
    colour = random.integers(0, 150, 3) + (105 if dark else 0)
    turn, scale = random.uniform(-0.35, 0.35), min(size) * random.uniform(0.2, 0.38)
    turned = outline(shape) @ [[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]
    corners = turned * scale + np.array(size) * random.uniform(0.42, 0.58, 2)
    mask = Image.new("L", (4 * size[0], 4 * size[1]))
    ImageDraw.Draw(mask).polygon([(4 * x, 4 * y) for x, y in corners.tolist()], fill=255)
    image.paste(tuple(colour.tolist()), mask=mask.resize(size, Image.Resampling.LANCZOS))
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, quality=90)


def outline(shape: str) -> NDArray[np.float64]:
    """The corners of a shape (n, 2), with a radius of about 1."""
    turn = np.linspace(0, 2 * np.pi, 120, endpoint=False)
    sides = {"circle": 120, "hexagon": 6, "square": 4, "triangle": 3}
    if shape in sides:
        return _around(turn[:: 120 // sides[shape]])
    if shape == "star":
        radius = np.tile([1, 0.42], 5)
        return np.stack([radius, radius], 1) * _around(turn[::12])
    if shape == "heart":
        x = 16 * np.sin(turn) ** 3
        y = 13 * np.cos(turn) - 5 * np.cos(2 * turn) - 2 * np.cos(3 * turn) - np.cos(4 * turn)
        return np.stack([x, -y], 1) / 16
    if shape == "moon":
        inner = _around(turn[94:25:-1] + np.pi / 2) * 0.8 + [0.45, 0]
        return np.concatenate([_around(turn[17:104] + np.pi / 2), inner])
    if shape == "arrow":
        return np.array([(-3, -1), (0, -1), (0, -2.5), (3, 0), (0, 2.5), (0, 1), (-3, 1)]) / 3
    half = np.array([(-1, -3), (1, -3), (1, -1), (3, -1), (3, 1), (1, 1)]) / 3
    return np.concatenate([half, -half])  # a cross


def _around(turn: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([np.sin(turn), -np.cos(turn)], 1)


if __name__ == "__main__":
    main(Path(*sys.argv[1:2]))
