"""Fit the weights of our estimate of the number of classes on random cuts.

    python -m benchmarks.number_fit VECTORS 1000 1480 src/newfound/estimate/weights.json

The arguments are as for `benchmarks.number`, which measures on other cuts of the same data. Here the numbers
of known and novel classes, of labelled images per class and of images in the pile are drawn independently and
from wider ranges. As by default, every pile may be mixed. Classes of photographs are often clearer than those
of CIFAR, so a quarter of the cuts is of images near the mean of their class, of classes far apart, or both.
"""

import json
import math
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.number import TAILS, in_parallel, take
from newfound.estimate.peak import Look, in_components
from newfound.estimate.trial import EstimateConfig, Features

Vectors = NDArray[np.floating]
KINDS = ("c10", "c100", "c10", "c100", "c10", "c100", "near", "far")
"""Kinds of cuts, in turn: of CIFAR-10, of CIFAR-100, and of its images near the mean or classes far apart."""
PARTS = (1, 0.7, 0.5, 0.35)
"""Shares of the images of a class to draw from in the last two kinds, those nearest to its mean."""
RANGES = {"c10": (3, 5), "c100": (5, 50)}
"""Fewest and most known classes, and novel ones."""
DRAWN = 40
"""Classes of which the one farthest from those before it is taken."""
RIDGE = 0.005
"""The ridge penalty, relative to the number of cuts, for features of unit variance."""
CAUCHY = 0.1
"""The scale of Cauchy's loss: most cuts count, not those with many classes that nothing shows."""
ROUNDS = 20
"""The number of reweightings."""
SPREAD_RIDGE = 0.01
"""The ridge penalty when the deviation is fitted."""


@cache
def _vectors(folder: Path, name: str) -> tuple[Vectors, NDArray[np.integer], Vectors]:
    """The vectors of a data set, their classes, and the means of the classes."""
    vectors, labels = (np.load(folder / f"{name}{end}.npy", mmap_mode="r") for end in ("", "-labels"))
    means = np.stack([vectors[labels == c].mean(0, dtype=np.float32) for c in np.unique(labels)])
    return vectors, labels, means / np.linalg.norm(means, axis=1, keepdims=True)


def cut(folder: Path, seed: int) -> tuple[Features, int]:
    """The features of a random cut, and its number of novel classes."""
    random, kind = np.random.RandomState(seed), KINDS[seed // 6 % len(KINDS)]
    mixed, tail = bool(seed % 2), TAILS[seed // 2 % 3]
    name = "c10" if kind == "c10" else "c100"
    vectors, labels, means = _vectors(folder, name)
    part = PARTS[seed // 48 % len(PARTS)] if kind in ("near", "far") else 1
    fewest, most = RANGES[name]
    known, novel = (round(math.exp(random.uniform(math.log(fewest), math.log(most)))) for _ in range(2))
    each, labelled = (round(math.exp(random.uniform(math.log(least), math.log(250)))) for least in (60, 50))
    classes = random.permutation(len(means))
    if kind == "far":
        classes = random.permutation(_far_apart(means, classes[: known + novel].tolist(), random))
    images = []
    for c in classes[: known + novel]:
        rows = np.flatnonzero(labels == c)
        nearest = rows[np.argsort(-vectors[rows].astype(np.float32) @ means[c])]
        images.append(random.permutation(nearest[: round(part * len(rows))]))
    half = len(images[0]) // 2
    each, labelled = min(each, half), min(labelled, half)
    sizes = [max(round(2 * each * tail ** (-place / (novel - 1))), 2) for place in random.permutation(novel)]
    pile = [rows[:size] for rows, size in zip(images[known:], sizes, strict=True)]
    if mixed:
        pile += [rows[half : half + max(round(random.uniform(0.2, 1) * each), 2)] for rows in images[:known]]
    ids = torch.from_numpy(np.repeat(np.arange(known), labelled))
    shown = [rows[:labelled] for rows in images[:known]]
    return Features(take(vectors, shown), ids, take(vectors, pile), mixed=True), novel


def _far_apart(means: Vectors, classes: list[int], random: np.random.RandomState) -> list[int]:
    """As many classes, each far from those before it, among some drawn at random."""
    found = classes[:1]
    while len(found) < len(classes):
        others = np.setdiff1d(np.arange(len(means)), found)
        drawn = random.permutation(others)[:DRAWN]
        found.append(int(drawn[(means[drawn] @ means[found].T).max(1).argmin()]))
    return found


def _signs(job: tuple[Path, int]) -> tuple[dict[str, float], float]:
    features, novel = cut(*job)
    found = Look.of(in_components(features), EstimateConfig(), torch.Generator().manual_seed(job[1]))
    return found.signs, math.log(novel)


def fitted(signs: Sequence[dict[str, float]], wanted: Sequence[float]) -> dict[str, dict[str, float]]:
    """The weights of log N and of the logarithm of its deviation; the key "" has the constant.

    The first are fitted by ridge regression with Cauchy's loss, by reweighting. The second maximise the
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
        weight = 1 / (1 + (errors / CAUCHY) ** 2)
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
    signs, wanted = zip(*(each for each in in_parallel(_signs, jobs) if each[0]), strict=True)
    Path(arguments[3]).write_text(json.dumps({"cuts": len(signs), **fitted(signs, wanted)}, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
