"""Cut scikit-image's photographs into images: six labelled classes, a pile with four more, a few for later.

python photographs.py [FOLDER]   # writes known/, pile/ and new-images/ to FOLDER or the current folder

Each class is a photograph. Its left third is cut into known/, the middle into pile/, the right into
new-images/, so no two folders show the same place. The photographs are in the public domain, CC0, or without
known copyright.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from skimage import data

KNOWN = {  # class: name of its photograph in skimage.data
    "brick": "brick",
    "cat": "chelsea",
    "coins": "coins",
    "gravel": "gravel",
    "retina": "retina",
    "text": "text",
}
NEW = {
    "coffee": "coffee",
    "galaxies": "hubble_deep_field",
    "grass": "grass",
    "tissue": "immunohistochemistry",
}
FOLDERS = ("known", "pile", "new-images")


def main(folder: Path, labelled: int = 25, known: int = 15, new: int = 45, later: int = 2) -> None:
    """Write this many images of each class; `known` is the number in the pile of each known class."""
    random, number = np.random.default_rng(0), 0
    photographs = {name: Image.fromarray(getattr(data, source)()) for name, source in (KNOWN | NEW).items()}
    pile = np.repeat([*KNOWN, *NEW], [*[known] * len(KNOWN), *[new] * len(NEW)])
    for third, names in enumerate(
        (np.repeat([*KNOWN], labelled), random.permutation(pile), np.repeat([*KNOWN, *NEW], later))
    ):
        for name in names.tolist():
            path = folder / FOLDERS[third] / (name if third == 0 else "") / f"IMG_{number:04}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            crop(photographs[name], third, random).convert("RGB").save(path, quality=90)
            number += 1


def crop(photograph: Image.Image, third: int, random: np.random.Generator) -> Image.Image:
    """A square of random place and size in a third of the photograph, mirrored half of the time."""
    width, height = photograph.width // 3, photograph.height
    side = int(width * random.uniform(0.6, 1))
    left, top = third * width + random.integers(width - side + 1), random.integers(height - side + 1)
    image = photograph.crop((left, top, left + side, top + side))
    return ImageOps.mirror(image) if random.random() < 0.5 else image


if __name__ == "__main__":
    main(Path(*sys.argv[1:2]))
