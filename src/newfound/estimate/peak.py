"""Our estimate, for vectors: where the silhouette peaks in the metric that the known classes teach.

    log k* = sum_k w_k log k,  w = softmax(s / tau),  s_k: the mean silhouette of k clusters

The vectors are whitened and averaged with their neighbours, as for `centroids`, and nothing is trained.
k-means cuts large classes into pieces before it finds the small ones. So a vector is drawn with a probability
of one over the number of vectors around it, which leaves classes of about equal sizes, and every cluster
counts the same in s, the mean of some draws. From a mixed pile, vectors are left out first that have almost
as many labelled neighbours as labelled vectors have.

How far to trust the number is asked of the known classes: some of them are hidden from the whitening and
counted the same way, in equal sizes and in long tails. The factor by which their number is missed at most in
80 % of these trials gives the range.

Shapes: n vectors, D features, P principal components.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.estimate.silhouette import silhouettes
from newfound.estimate.trial import EstimateConfig, Features, Trial, Verdict, best_of, most_extra
from newfound.pseudo.kmeans import KMeans
from newfound.pseudo.metric import CHUNK, average, principal_components, whitening

FEWEST_TO_HIDE = 4
"""Known classes, of which some can be hidden."""
COMPONENTS, SHRINKAGE, NEIGHBOURS = 256, 1.0, 25
"""Principal components at most; how much the covariance is shrunk; neighbours in an average."""
SAMPLE, FEWEST, DRAWN = 3000, 200, 800
"""Vectors that are looked at, at most; half of them is drawn, within these bounds."""
DRAWS, RESTARTS, CLOSE, SOFTNESS = 2, 4, 0.6, 0.05
"""Draws; runs of k-means on each; the cosine from which vectors are close, and how gradually."""
KNOWN = 0.7
"""The share of labelled neighbours from which a vector is left out, of that of labelled vectors."""
RATIO, TAU = 1.15, 0.01
"""Of successive numbers of clusters; of the softmax over silhouettes."""
TURNS, COVERED = 9, 0.8
"""Times that classes are hidden, and the share of them that the range covers."""
ENOUGH, TAILS = 200, (1, 10, 50)
"""Images of the largest hidden class; how many times as many as of the smallest, in turn."""
FARTHEST = 4
"""The largest number of clusters tried for hidden classes, of their number."""


def peak_most_trials(most: int) -> int:
    """The grid, then two trials each time the gaps beside the best are halved."""
    grid = peak_grid(most)
    widest = max((above - below for below, above in pairwise(grid)), default=1)
    return len(grid) + 2 * (widest - 1).bit_length()


def peak_grid(most: int) -> list[int]:
    """Numbers of clusters from 2 to `most`."""
    steps = math.ceil(math.log(max(most / 2, 1), RATIO))
    return sorted({min(round(2 * RATIO**step), most) for step in range(steps + 1)})


def _search(curve: Callable[[int], float], most: int) -> Iterator[tuple[int, float]]:
    """Numbers of clusters and silhouettes: the grid, then half-way between the best and those beside it."""
    found: dict[int, float] = {}
    wanted = peak_grid(most)
    while wanted:
        for k in wanted:
            found[k] = curve(k)
            yield k, found[k]
        best = best_of(found)
        below = max((k for k in found if k < best), default=best)
        above = min((k for k in found if k > best), default=best)
        wanted = sorted({(below + best) // 2, (best + above + 1) // 2} - {*found})


def peak_trials(
    features: Features, config: EstimateConfig, random: torch.Generator, done: Mapping[int, Trial]
) -> Iterator[Trial]:
    """The silhouette for each number of clusters; trials that are `done` are not repeated."""
    known, pile = (F.normalize(each, dim=-1) for each in (features.labelled, features.pile))
    both = torch.cat([known, pile])
    mean = both.mean(0)
    basis = principal_components(both - mean, min(COMPONENTS, both.shape[1]))
    projected = replace(features, labelled=(known - mean) @ basis, pile=(pile - mean) @ basis)
    curve = Curve(projected, config, random)
    missed_by = next(iter(done.values())).missed_by if done else _missed_by(projected, config, random)
    heights = {k: trial.silhouette or 0.0 for k, trial in done.items()}
    for k, height in _search(lambda k: heights[k] if k in heights else curve(k), curve.most):
        yield done[k] if k in done else Trial(k, k, silhouette=height, missed_by=missed_by)


class Curve:
    """The silhouette as a function of the number of clusters."""

    def __init__(self, features: Features, config: EstimateConfig, random: torch.Generator) -> None:
        """Features of P components."""
        whiten = whitening(features.labelled, features.classes, SHRINKAGE)
        known, pile = (
            F.normalize(_some(each, SAMPLE, random) @ whiten, dim=-1)
            for each in (features.labelled, features.pile)
        )
        if features.mixed:
            pile = pile[is_novel(pile, known)]
        seen = average(pile, pile, NEIGHBOURS)
        crowd = ((seen @ seen.T - CLOSE) / SOFTNESS).sigmoid().sum(1).clamp(min=NEIGHBOURS)
        number = min(max(min(len(seen) // 2, DRAWN), FEWEST), len(seen))
        self.most = most_extra(number, config)
        self.draws = [
            KMeans(
                seen[torch.multinomial(1 / crowd, number, generator=random)],
                self.most,
                random,
                restarts=RESTARTS,
                iterations=config.iterations,
            )
            for _ in range(DRAWS)
        ]

    def __call__(self, k: int) -> float:
        return sum(_height(kmeans, k) for kmeans in self.draws) / DRAWS


def _height(kmeans: KMeans, k: int) -> float:
    """The mean over the clusters of their points' silhouettes."""
    clusters = kmeans(k).labels
    scores = silhouettes(kmeans.points, clusters, k)
    sizes = clusters.bincount(minlength=k)
    means = torch.zeros_like(sizes, dtype=scores.dtype).index_add_(0, clusters, scores) / sizes
    return float(means[sizes > 0].mean())


def _missed_by(features: Features, config: EstimateConfig, random: torch.Generator) -> float | None:
    """The factor by which the number of hidden known classes is missed; None where too few can be hidden."""
    number = int(features.classes.max()) + 1
    if number < FEWEST_TO_HIDE:
        return None
    errors = []
    for turn in range(TURNS):
        order = torch.randperm(number, generator=random, device=random.device)
        least, most = max(number // 3, 2), 2 * number // 3
        hidden = order[: least + turn * (most - least + 1) // TURNS]
        pretended = _pretended(features, hidden, TAILS[turn % len(TAILS)], random)
        limited = replace(config, max_novel=min(config.max_novel, FARTHEST * len(hidden)))
        curve = Curve(pretended, limited, random)
        found = soft_peak(dict(_search(curve, curve.most)))
        errors.append(abs(math.log(found / len(hidden))))
    return math.exp(float(torch.tensor(errors).quantile(COVERED)))


def _pretended(features: Features, hidden: Tensor, tail: int, random: torch.Generator) -> Features:
    """The same question with `hidden` classes for novel ones; half of the other images join a mixed pile."""
    known, classes = features.labelled, features.classes
    sizes = [round(ENOUGH * tail ** (-place / (len(hidden) - 1))) for place in range(len(hidden))]
    pile = [_some(known[classes == c], size, random) for c, size in zip(hidden, sizes, strict=True)]
    shown = ~torch.isin(classes, hidden)
    if features.mixed:
        joining = shown & (torch.rand(len(classes), generator=random, device=random.device) < 0.5)
        pile.append(known[joining])
        shown &= ~joining
    return replace(features, labelled=known[shown], classes=classes[shown], pile=torch.cat(pile))


def _some(x: Tensor, number: int, random: torch.Generator) -> Tensor:
    """Rows of x, `number` at most, at random."""
    return x[torch.randperm(len(x), generator=random, device=random.device)[:number]]


def is_novel(pile: Tensor, known: Tensor) -> Tensor:
    """Unit vectors (n, P), (N, P) → which of the pile have few labelled neighbours (n,), FEWEST at least."""
    both, n = torch.cat([pile, known]), len(pile)
    k = min(NEIGHBOURS + 1, len(both))
    nearest = torch.cat([(part @ both.T).topk(k, dim=1).indices for part in torch.split(both, CHUNK)])
    share = (nearest[:, 1:] >= n).double().mean(1)
    least = share[:n].kthvalue(min(FEWEST, n)).values
    return share[:n] <= torch.maximum(KNOWN * share[n:].mean().nan_to_num(), least)


def soft_peak(silhouettes: Mapping[int, float]) -> float:
    """k*: the number of clusters at the peak, between those of almost the same height."""
    weights = (torch.tensor(list(silhouettes.values()), dtype=torch.float64) / TAU).softmax(0)
    return math.exp(sum(float(w) * math.log(k) for w, k in zip(weights, silhouettes, strict=True)))


def peak_estimate(trials: Sequence[Trial]) -> Verdict:
    """The soft peak; the range is as wide as hidden classes demand, and open where the curve ends."""
    curve = {trial.extra: trial.silhouette or 0.0 for trial in trials}
    least, most, best, found = min(curve), max(curve), best_of(curve), soft_peak(curve)
    factor = trials[0].missed_by or math.inf
    low = 1 if best == least else max(math.floor(found / factor), 1)
    high = most if best == most else math.ceil(min(found * factor, most))
    return Verdict(round(found), low, high, best, {"silhouette": best})
