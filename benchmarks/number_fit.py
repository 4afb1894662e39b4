"""Fit the weights of our estimate of the number of classes on random cuts.

    python -m benchmarks.number_fit VECTORS 1000 1988 src/newfound/estimate/weights.json

The arguments are as for `benchmarks.number`, which measures on other cuts. Here the numbers of known and
novel classes, of labelled images per class and of images in the pile are drawn independently and from wider
ranges.
"""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.number import TAILS, in_parallel, take
from newfound.estimate.peak import Look, in_components
from newfound.estimate.trial import EstimateConfig, Features

RIDGE = 0.002
"""The ridge penalty, relative to the number of cuts, for features of unit variance."""
HUBER = 0.2
"""Larger errors are down-weighted, as in Huber's loss."""
ROUNDS = 20
"""The number of reweightings."""
SPREAD_RIDGE = 0.01
"""The ridge penalty when the deviation is fitted."""


def cut(folder: Path, seed: int) -> tuple[Features, int]:
    """The features of a random cut, and its number of novel classes."""
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


def fitted(signs: Sequence[dict[str, float]], wanted: Sequence[float]) -> dict[str, dict[str, float]]:
    """The weights of log N and of the logarithm of its deviation; the key "" has the constant.

    The first are fitted by ridge regression with Huber's loss, by reweighting. The second maximise the
    likelihood of the leave-one-out errors of the first under Laplace's distribution, scaled such that four
    fifths of these errors are within 1.28 deviations.
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
    print("median error", np.median(np.abs(np.expm1(-errors))), "without", np.median(np.abs(np.expm1(-y))))
    errors = np.abs(errors)

    def unlikely(v: NDArray[np.floating]) -> tuple[float, NDArray[np.floating]]:
        ratios, pulled = errors * np.exp(-z @ v), SPREAD_RIDGE * np.r_[0, v[1:]]
        return float((z @ v + ratios).mean() + pulled @ v / 2), z.T @ (1 - ratios) / len(y) + pulled

    spread = minimize(unlikely, np.zeros(z.shape[1]), jac=True).x
    spread[0] += np.log(np.quantile(errors * np.exp(-z @ spread), 0.8) / 1.28)

    def weights(v: NDArray[np.floating]) -> dict[str, float]:
        w = v[1:] / scale
        return {"": float(v[0] - w @ mean)} | dict(zip(names, map(float, w), strict=True))

    number = weights(solve @ y)
    number["peak"] += 1
    return {"number": number, "deviation": weights(spread)}


def main(arguments: Sequence[str]) -> None:
    """Compute the features of every cut, fit the weights, and write them."""
    jobs = [(Path(arguments[0]), seed) for seed in range(int(arguments[1]), int(arguments[2]))]
    found = [each for each in in_parallel(_signs, jobs) if each[1]]
    parts = {}
    for mixed in (False, True):
        signs, wanted = zip(*((each[1], each[2]) for each in found if each[0] == mixed), strict=True)
        parts["mixed" if mixed else "novel"] = {"cuts": len(signs), **fitted(signs, wanted)}
        print(parts)
    Path(arguments[3]).write_text(json.dumps(parts, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
