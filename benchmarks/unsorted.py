"""Count the images left unsorted: of classes, where that is a mistake, and strangers, where it is right.

    python -m benchmarks.unsorted vectors.npy labels.npy 10 15 results/unsorted/cifar10.json [50]

The numbers are the first seed and the one after the last, and the ratio of the largest to the smallest class
of the pile, by default 1. Each seed draws classes: two fifths are known, a fifth is novel. Strangers are
three images from each of the remaining classes, too few to form a class. Each seed makes two piles with
strangers: one of novel classes, and a mixed one.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray

import newfound
from newfound.core.files import write_text
from newfound.core.source import PileKind
from newfound.run.provenance import provenance

EACH = 100
"""Images of a class, among the labelled ones and, if it is the largest, in the pile."""
FEW = 3
"""Images of each class of strangers."""
STRANGER = -1


def cut(
    vectors: NDArray[np.floating], labels: NDArray[np.integer], pile: PileKind, seed: int, ratio: int
) -> dict[str, float]:
    """Vectors (n, D) and their classes (n,) → the shares that the default method leaves unsorted."""
    random = np.random.default_rng(seed)
    classes = random.permutation(np.unique(labels))
    known, novel = len(classes) * 2 // 5, len(classes) // 5
    sizes = [round(EACH * ratio ** (-i / (n - 1))) for n in (known, novel) for i in range(n)]
    rows, given, true = list[int](), list[str](), list[int]()
    for place, own in enumerate(classes.tolist()):
        some = random.permutation(np.flatnonzero(labels == own)).tolist()
        if place < known:
            rows, given = rows + some[:EACH], given + [str(own)] * EACH
            true += [own] * EACH
            some = some[EACH:] if pile == "mixed" else []
        some = some[: sizes[place] if place < known + novel else FEW]
        rows, given = rows + some, given + ["-1"] * len(some)
        true += [own if place < known + novel else STRANGER] * len(some)
    data = newfound.from_embeddings(vectors[rows], np.array(given), novel, pile=pile)
    with TemporaryDirectory() as folder:
        newfound.discover(data=data, out=Path(folder) / "run", verbose=False, device="cpu")
        assigned = newfound.Review.open(Path(folder) / "run").assignments
    strange = np.array(true)[np.array(given) == "-1"] == STRANGER
    return {
        "seed": seed,
        "mixed": float(pile == "mixed"),
        "images": len(strange),
        "strangers": int(strange.sum()),
        "mistaken": float(assigned.unsorted[~strange].mean()),
        "found": float(assigned.unsorted[strange].mean()),
    }


def main(arguments: Sequence[str]) -> None:
    """Print and record the results of every cut and their means."""
    vectors, labels = np.load(arguments[0], mmap_mode="r"), np.load(arguments[1])
    cuts, ratio = [], int(arguments[5]) if len(arguments) > 5 else 1
    for seed in range(int(arguments[2]), int(arguments[3])):
        for pile in ("novel", "mixed"):
            cuts.append(cut(vectors, labels, pile, seed, ratio))
            print(cuts[-1], flush=True)
    means = {key: fmean(each[key] for each in cuts) for key in ("mistaken", "found")}
    print(means)
    origin = provenance(torch.device("cpu")).model_dump()
    write_text(
        Path(arguments[4]), json.dumps({**means, "ratio": ratio, "cuts": cuts, **origin}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
