"""Scikit-learn's digits: 1,797 scans of 8 x 8 pixels, without download."""

from pathlib import Path

import numpy as np
import torch

from newfound.core.registry import register_dataset
from newfound.data.augment import NORMALISATION
from newfound.data.benchmarks.family import Benchmark, Corpus, Family, Part
from newfound.data.dataset import TEST_EVERY, Look, Rows, rank_in_class
from newfound.data.images import ResidentImages

NAMES = tuple("0123456789")
WHITE = 16


@register_dataset("digits")
def digits() -> Family:
    """Digits 5 to 9 are novel."""
    look = Look(8, "digits", *NORMALISATION["digits"], stored=8)
    return Family(_read, look, "nothing", (Benchmark("digits", 5, NAMES[5:]),))


def _read(data_dir: Path | None) -> Corpus:
    """Grey 0 .. 16 scaled to 0 .. 255; every fifth image of each class is for test."""
    from sklearn.datasets import load_digits  # slow to import, and only needed here

    loaded = load_digits()
    grey = np.rint(loaded.images * (255 / WHITE)).astype(np.uint8)
    pixels = torch.from_numpy(grey)[:, None].expand(-1, 3, -1, -1)
    labels = loaded.target.astype(np.int64)
    is_test = rank_in_class(labels) % TEST_EVERY == TEST_EVERY - 1

    def part(rows: Rows) -> Part:
        return Part(labels[rows], ResidentImages(pixels[rows], [f"digits/{row}" for row in rows]))

    return Corpus(NAMES, part(np.flatnonzero(~is_test)), part(np.flatnonzero(is_test)))
