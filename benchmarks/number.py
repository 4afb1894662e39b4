"""How well the number of novel classes is estimated.

    python -m benchmarks.number vectors.npy labels.npy 100 140

Each seed cuts known and novel classes, their number and sizes at random; half of the piles have a long tail.
"""

import sys
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from newfound.estimate.search import ALGORITHMS
from newfound.estimate.trial import EstimateConfig, Features

NOVEL, KNOWN, EACH, TAIL = (5, 7, 10, 14, 20, 25), (10, 15, 20, 25), (60, 100, 200, 300), (1, 10)
"""What is drawn from: numbers of classes, images of the largest class, and the smallest's part of that."""


def cut(vectors: torch.Tensor, labels: NDArray[np.integer], seed: int) -> tuple[Features, int, str]:
    """Vectors (n, D) and their classes (n,) → features, the number of novel classes, and what was drawn."""
    random = np.random.RandomState(5000 + seed)
    novel, known, tail, each = (int(random.choice(values)) for values in (NOVEL, KNOWN, TAIL, EACH))
    classes = random.permutation(np.unique(labels))[: known + novel]
    sizes = [min(each, 200)] * known + [int(each * tail ** (-i / (novel - 1))) for i in range(novel)]
    rows = [
        random.permutation(np.flatnonzero(labels == c))[:size] for c, size in zip(classes, sizes, strict=True)
    ]
    ids = torch.from_numpy(np.repeat(np.arange(known), [len(each) for each in rows[:known]]))
    labelled, pile = (vectors[np.concatenate(part)] for part in (rows[:known], rows[known:]))
    return Features(labelled, ids, pile), novel, f"{known} known, 1:{tail}, {each} images"


def main(arguments: Sequence[str]) -> None:
    """Print every cut, then the median error, how often the range holds the truth, and its median width."""
    vectors, labels = torch.from_numpy(np.load(arguments[0])).float(), np.load(arguments[1])
    rows = []
    for seed in range(int(arguments[2]), int(arguments[3])):
        features, true, what = cut(vectors, labels, seed)
        algorithm, random = ALGORITHMS["silhouette"], torch.Generator().manual_seed(seed)
        found = algorithm.verdict(list(algorithm.trials(features, EstimateConfig(), random, {})))
        print(f"{seed}: {true} novel, {what}: {found.num_novel} ({found.low} to {found.high})", flush=True)
        rows.append(
            (found.num_novel / true - 1, found.low <= true <= found.high, found.high - found.low, true)
        )
    error, covered, width, number = (np.array(column) for column in zip(*rows, strict=True))
    print(
        f"{len(rows)} cuts: median error {np.median(abs(error)):.1%}, truth in the range "
        f"{covered.mean():.0%}, median width {np.median(width / number):.0%} of the truth"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
