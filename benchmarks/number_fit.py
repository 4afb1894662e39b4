"""Fit the weights of our estimate of the number of classes on random cuts.

    python -m benchmarks.number_fit VECTORS 1000 1987 src/newfound/estimate/weights.json

VECTORS is as for `benchmarks.number`, which measures on other cuts. Here the numbers of known and novel
classes, of labelled images of a class and of images in the pile are drawn independently and more widely.
"""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.number import TAILS, in_parallel, take
from newfound.estimate.peak import Look, in_components
from newfound.estimate.trial import EstimateConfig, Features

RIDGE, HUBER, ROUNDS = 0.002, 0.2, 20
"""Penalty, of the number of cuts, for features of unit variance; errors that count in full; reweightings."""


def cut(folder: Path, seed: int) -> tuple[Features, int]:
    """The features of a random cut, and the number of its novel classes."""
    random = np.random.RandomState(seed)
    name = "c10" if seed // 6 % 4 == 3 else "c100"
    vectors, labels = (np.load(folder / f"{name}{end}.npy", mmap_mode="r") for end in ("", "-labels"))
    mixed, tail = bool(seed % 2), TAILS[seed // 2 % 3]
    if name == "c10":
        known = int(random.randint(3, 7))
        novel = int(random.randint(2, 11 - known))
    else:
        known, novel = (round(math.exp(random.uniform(math.log(5), math.log(50)))) for _ in range(2))
    each, labelled = (round(math.exp(random.uniform(math.log(least), math.log(250)))) for least in (60, 50))
    classes = random.permutation(np.unique(labels))[: known + novel]
    images = [random.permutation(np.flatnonzero(labels == c)) for c in classes]
    sizes = [max(round(2 * each * tail ** (-place / (novel - 1))), 2) for place in random.permutation(novel)]
    pile = [rows[:size] for rows, size in zip(images[known:], sizes, strict=True)]
    if mixed:
        pile += [rows[250 : 250 + max(round(random.uniform(0.2, 1) * each), 2)] for rows in images[:known]]
    ids = torch.from_numpy(np.repeat(np.arange(known), labelled))
    shown = [rows[:labelled] for rows in images[:known]]
    return Features(take(vectors, shown), ids, take(vectors, pile), mixed), novel


def _signs(job: tuple[Path, int]) -> tuple[bool, dict[str, float], float]:
    features, novel = cut(*job)
    found = Look.of(in_components(features), EstimateConfig(), torch.Generator().manual_seed(job[1]))
    return features.mixed, found.signs, math.log(novel)


def fitted(signs: Sequence[dict[str, float]], wanted: Sequence[float]) -> tuple[dict[str, float], float]:
    """What to add to the peak: weights, "" for the constant; and the deviation, each cut left out in turn.

    Ridge regression with Huber's loss, by reweighting.
    """
    names = list(signs[0])
    x = np.array([[each[name] for name in names] for each in signs])
    y = np.array(wanted) - x[:, names.index("peak")]
    mean, scale = x.mean(0), x.std(0)
    z = np.c_[np.ones(len(y)), (x - mean) / scale]
    penalty = RIDGE * len(y) * np.diag([0, *np.ones(len(names))])
    weight = np.ones(len(y))
    for _ in range(ROUNDS):
        solve = np.linalg.solve((z.T * weight) @ z + penalty, z.T * weight)
        errors = y - z @ solve @ y
        weight = np.minimum(1, HUBER / np.abs(errors))
    errors /= 1 - np.diag(z @ solve)
    w = (solve @ y)[1:] / scale
    weights = {"": float((solve @ y)[0] - w @ mean)} | dict(zip(names, map(float, w), strict=True))
    print("median error", np.median(np.abs(np.expm1(-errors))), "without", np.median(np.abs(np.expm1(-y))))
    weights["peak"] += 1
    return weights, float(np.quantile(np.abs(errors), 0.8) / 1.28)


def main(arguments: Sequence[str]) -> None:
    """Look at each cut, fit, and write the weights."""
    jobs = [(Path(arguments[0]), seed) for seed in range(int(arguments[1]), int(arguments[2]))]
    found = [each for each in in_parallel(_signs, jobs) if each[1]]
    parts = {}
    for mixed in (False, True):
        signs, wanted = zip(*((each[1], each[2]) for each in found if each[0] == mixed), strict=True)
        weights, deviation = fitted(signs, wanted)
        parts["mixed" if mixed else "novel"] = {
            "cuts": len(signs),
            "deviation": deviation,
            "weights": weights,
        }
        print(parts)
    Path(arguments[3]).write_text(json.dumps(parts, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
