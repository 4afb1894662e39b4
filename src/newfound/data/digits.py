"""Scikit-learn's digits: 1,797 real scans of 8 x 8 pixels, no download."""

from pathlib import Path

import numpy as np
import torch

from newfound.data.corpus import Corpus, Part
from newfound.data.images import ResidentImages
from newfound.data.subsets import TEST_EVERY, Rows, rank_in_class

NAMES = tuple("0123456789")
WHITE = 16


def digits_corpus(data_dir: Path | None = None) -> Corpus:
    """Grey 0 .. 16 scaled to 0 .. 255; every fifth image of each class is for test; no folder is needed."""
    from sklearn.datasets import load_digits  # slow to import, and nothing else here needs it

    loaded = load_digits()
    grey = np.rint(loaded.images * (255 / WHITE)).astype(np.uint8)
    pixels = torch.from_numpy(grey)[:, None].expand(-1, 3, -1, -1)
    labels = loaded.target.astype(np.int64)
    is_test = rank_in_class(labels) % TEST_EVERY == TEST_EVERY - 1

    def part(rows: Rows) -> Part:
        def pick(chosen: Rows) -> ResidentImages:
            at = rows[chosen]
            return ResidentImages(pixels[at].contiguous(), [f"digits/{row}" for row in at])

        return Part(labels[rows], pick)

    return Corpus(NAMES, part(np.flatnonzero(~is_test)), part(np.flatnonzero(is_test)))
