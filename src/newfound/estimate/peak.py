"""Our estimate for vectors: the peak of the silhouette in the metric of the known classes, corrected.

    log N = w_0 + sum_i w_i c_i,  c: log k at the peak s_k of the mean silhouette of k clusters, and others

Nothing is trained. As in `centroids`, the vectors are whitened and averaged with their neighbours. k-means
cuts large classes into pieces before it finds the small ones, so a vector is drawn with a probability inverse
to the number of vectors around it. This leaves classes of about equal size. In s, the mean over several
draws, every cluster counts the same. The vectors of a mixed pile that look known are left out first
(`pseudo.likeness`). If labelled vectors look as novel as the remaining ones, there is no new class.

The peak is at too few clusters if classes are small or uneven in size. The signs c (`Look`) tell whether they
are; the weights w were fitted to subsets of CIFAR (`benchmarks/number_fit.py`). The user's known classes
show whether this correction helps: some of them are hidden from the whitening and counted in the same way,
with equal sizes and with long tails. If the uncorrected peak counts them far better, it decides. The width of
the range is predicted from the signs, too, and scaled by how far off the counts of the hidden classes are.

Shapes: n vectors, D features, P principal components.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.estimate.trial import EstimateConfig, Features, Trial, Verdict, best_of, most_extra
from newfound.metrics.clustering import distances, silhouettes_of
from newfound.pseudo.kmeans import KMeans
from newfound.pseudo.likeness import Likeness, average, left_out, positions, principal_components, whitening

COMPONENTS = 256
"""Principal components, at most."""
SHRINKAGE = 1.0
"""Shrinkage of the covariance within classes."""
SAMPLE = 3000
"""Vectors that are looked at, of the labelled ones and of the pile, at most."""

DENSE = 10
"""Every number of clusters is tried up to this one."""
RATIO = 1.2
"""Ratio of consecutive larger numbers."""
TAU = 0.01
"""Temperature of the softmax over silhouettes."""

DRAWN = (200, 800)
"""Fewest and most vectors in a draw, which is half of them otherwise."""
NEIGHBOURS = 25
"""Neighbours in the first average."""
SHARE = 0.2
"""Neighbours in later averages, as a share of a class."""
AVERAGED = (5, 60)
"""Fewest and most neighbours in later averages."""
RESTARTS = 4
"""Restarts of k-means on a draw."""
ITERATIONS = 15
"""Iterations of k-means on a draw."""
CLOSE = 0.6
"""Cosine above which two vectors are close."""
SOFTNESS = 0.05
"""How gradually vectors become close: the scale of a sigmoid around CLOSE."""

FEWEST_IMAGES = 5
"""A mixed pile of fewer vectors holds no new class."""
FEWEST_NOVEL = 50
"""Vectors of a mixed pile to use, at least; but not more than half of it."""
MARGIN = 0.03
"""The part of a mixed pile that looks novel must exceed the part of labelled vectors that does by this."""
DEVIATIONS = 2.0
"""By how many standard deviations it must exceed that as well."""

FEW = 40
"""With fewer vectors in the pile than this there is no correction and no range."""
FEWEST_TO_HIDE = 4
"""Known classes that are needed to hide some."""
TURNS = 6
"""How many times known classes are hidden."""
LARGEST = 200
"""Vectors of the largest hidden class."""
TAILS = (1, 10, 50)
"""How many times as large as the smallest hidden class the largest is, in turn."""
BETTER = 1.2
"""The uncorrected peak decides if the error of the correction is this many times as large."""
PRIOR = 12
"""How many turns the subsets behind the weights count for."""
WIDTH = 1.28
"""Deviations to either end of the range, so that it holds four numbers out of five."""
MISSED = 3.0
"""Error, in deviations, if nothing among the hidden classes looks novel."""

FITTED = json.loads(Path(__file__).with_name("weights.json").read_text())
"""w, and the weights that predict the log deviation of log N in the same way."""


def peak_grid(most: int) -> list[int]:
    """Numbers of clusters from 2 to `most`: all small ones, then a geometric sequence."""
    steps = math.ceil(math.log(max(most / DENSE, 1), RATIO))
    larger = (round(DENSE * RATIO**step) for step in range(steps))
    return sorted({*range(2, min(DENSE, most)), *larger, most})


def peak_trials(
    features: Features, config: EstimateConfig, random: torch.Generator, done: Mapping[int, Trial]
) -> Iterator[Trial]:
    """The silhouette for each number of clusters; they are computed together, so `done` saves nothing."""
    projected = in_components(features)
    found = Look.of(projected, config, random)
    counted, missed_by = judged(found, projected, config, random)
    for k, height in found.curve.items():
        yield Trial(k, k, silhouette=height, counted=counted, missed_by=missed_by)


def in_components(features: Features) -> Features:
    """The same vectors in P principal components."""
    known, pile = (F.normalize(each, dim=-1) for each in (features.labelled, features.pile))
    both = torch.cat([known, pile])
    mean = both.mean(0)
    basis = principal_components(both - mean, min(COMPONENTS, both.shape[1]))
    return replace(features, labelled=(known - mean) @ basis, pile=(pile - mean) @ basis)


@dataclass(frozen=True)
class Look:
    """The signs that correct the peak."""

    curve: dict[int, float]
    """Number of clusters → silhouette; all 0 if nothing looks novel."""
    signs: dict[str, float]
    """c; empty if nothing looks novel."""
    share: float
    """The share of the pile that looks known."""

    @classmethod
    def of(cls, features: Features, config: EstimateConfig, random: torch.Generator) -> "Look":
        """Look at features of P components."""
        grid = peak_grid(most_extra(len(features.pile), config))
        whiten = whitening(features.labelled, features.classes, SHRINKAGE)
        rows = _random_rows(len(features.labelled), SAMPLE, random)
        pile, share = F.normalize(_some(features.pile, SAMPLE, random) @ whiten, dim=-1), 0.0
        if features.mixed:
            pile, share = _novel_part(features, rows, whiten, pile)
            if not len(pile):
                return cls(dict.fromkeys(grid, 0.0), {}, share)
        n = len(pile)
        fewest, most = DRAWN
        number = min(max(min(n // 2, most), fewest), n)
        grid = [k for k in grid if k <= max(number // 4, 4)]
        first = Draw(pile, NEIGHBOURS, number, grid, random)
        fewest, most = AVERAGED
        neighbours = int(min(max(SHARE * n / math.exp(soft_peak(first.by_cluster)), fewest), most))
        draws = [Draw(pile, neighbours, number, grid, random) for _ in range(2)]
        curve = {k: sum(draw.by_cluster[k] for draw in draws) / len(draws) for k in grid}
        plain = Draw(pile, NEIGHBOURS, number, grid, random, thin=False)
        peak = soft_peak(curve)
        signs = {
            "peak": peak,
            "first": soft_peak(first.by_vector),
            "plain": soft_peak(plain.by_vector),
            "images": math.log(n),
            "uneven": sum(draw.unevenness(max(round(math.exp(peak)), 2)) for draw in draws) / len(draws),
        }
        return cls(curve, signs, share)


def _novel_part(features: Features, rows: Tensor, whiten: Tensor, pile: Tensor) -> tuple[Tensor, float]:
    """The whitened vectors of a mixed pile (n, P) that look novel, and the share of the others.

    Labelled vectors are sampled by their `rows`. No vector is left if the pile holds no new class.
    """
    if len(pile) < FEWEST_IMAGES:
        return pile[:0], 0.0
    labels = positions(features.classes)
    left = left_out(features.labelled, labels, whiten)[rows]
    known, labels = F.normalize(features.labelled[rows] @ whiten, dim=-1), positions(labels[rows])
    likeness = Likeness(known, left, labels, pile)
    share = likeness.share()[0]
    if not share:
        return pile, share
    novel = likeness.lowest(likeness.s, max(1 - share, min(FEWEST_NOVEL / len(pile), 0.5)))
    missed, part = likeness.missed(novel), float(novel.double().mean())
    chance = math.sqrt(missed * (1 - missed) / len(known) + part * (1 - part) / len(pile))
    return pile[novel] if part - missed > MARGIN + DEVIATIONS * chance else pile[:0], share


class Draw:
    """Vectors drawn from a pile, and their silhouettes."""

    def __init__(
        self,
        pile: Tensor,
        neighbours: int,
        number: int,
        grid: Sequence[int],
        random: torch.Generator,
        *,
        thin: bool = True,
    ) -> None:
        """Draw `number` vectors of the pile (n, P), and cluster them for each number of clusters in `grid`.

        Vectors are averaged with their neighbours, and drawn inversely to the density if `thin`.
        """
        self.seen = average(pile, pile, neighbours)
        crowd = torch.ones_like(self.seen[:, 0])
        if thin:
            closeness = ((self.seen @ self.seen.T - CLOSE) / SOFTNESS).sigmoid()
            crowd = closeness.sum(1).clamp(min=neighbours)
        rows = torch.multinomial(1 / crowd, number, generator=random)
        self.kmeans = KMeans(self.seen[rows], max(grid), random, restarts=RESTARTS, iterations=ITERATIONS)
        self.by_cluster: dict[int, float] = {}
        self.by_vector: dict[int, float] = {}
        every = torch.arange(len(rows), device=rows.device)
        between = distances(self.kmeans.points, every)
        for k in grid:
            clusters = self.kmeans(k).labels
            scores, sizes = silhouettes_of(between, every, clusters, k), clusters.bincount(minlength=k)
            means = torch.zeros_like(sizes, dtype=scores.dtype).index_add_(0, clusters, scores) / sizes
            self.by_cluster[k], self.by_vector[k] = float(means[sizes > 0].mean()), float(scores.mean())

    def unevenness(self, k: int) -> float:
        """The standard deviation of the log sizes of k clusters, counting all vectors."""
        centres = self.kmeans(k).centres
        sizes = torch.cdist(self.seen, centres).argmin(1).bincount(minlength=k)
        return float(sizes.clamp(min=1).double().log().std())


def soft_peak(silhouettes: Mapping[int, float]) -> float:
    """log k at the peak, averaged over peaks of almost the same height."""
    weights = (torch.tensor(list(silhouettes.values()), dtype=torch.float64) / TAU).softmax(0)
    return sum(float(w) * math.log(k) for w, k in zip(weights, silhouettes, strict=True))


def corrected(found: Look) -> float:
    """log N, for a pile in which something looks novel."""
    return _predicted("number", found)


def deviation(found: Look) -> float:
    """The standard deviation of log N."""
    return math.exp(_predicted("deviation", found))


def _predicted(what: str, found: Look) -> float:
    weights: dict[str, float] = FITTED[what]
    return weights[""] + sum(weights[name] * value for name, value in found.signs.items())


def judged(
    found: Look, features: Features, config: EstimateConfig, random: torch.Generator
) -> tuple[float, float | None]:
    """The number of classes, and the factor by which it may be off; None if there are too few images."""
    if not found.signs:
        return 0.0, None
    if len(features.pile) < FEW:
        return math.exp(found.signs["peak"]), None
    alike = replace(features, mixed=found.share > 0)
    errors = torch.tensor(list(_errors(alike, config, random)), dtype=torch.float64).view(-1, 2)
    squares = errors.square().sum(0)
    by_peak = bool(BETTER**2 * squares[0] < squares[1])
    more = (float(squares[0 if by_peak else 1]) + PRIOR) / (len(errors) + PRIOR)
    log_number = found.signs["peak"] if by_peak else corrected(found)
    return math.exp(log_number), math.exp(WIDTH * deviation(found) * math.sqrt(more))


def _errors(
    features: Features, config: EstimateConfig, random: torch.Generator
) -> Iterator[tuple[float, float]]:
    """For each turn, the error in the log number of hidden classes, in deviations: of the peak, of N."""
    number = int(features.classes.max()) + 1
    for turn in range(TURNS if number >= FEWEST_TO_HIDE else 0):
        order = torch.randperm(number, generator=random, device=random.device)
        least, most = max(number // 3, 2), 2 * number // 3
        hidden = order[: least + turn * (most - least + 1) // TURNS]
        found = Look.of(_with_hidden(features, hidden, TAILS[turn % len(TAILS)], random), config, random)
        wanted = math.log(len(hidden))
        if found.signs:
            unit = deviation(found)
            yield (found.signs["peak"] - wanted) / unit, (corrected(found) - wanted) / unit
        else:
            yield MISSED, MISSED


def _with_hidden(features: Features, hidden: Tensor, tail: int, random: torch.Generator) -> Features:
    """The features with the `hidden` classes as the pile; half of the other images join a mixed one."""
    known, classes = features.labelled, features.classes
    sizes = [round(LARGEST * tail ** (-place / (len(hidden) - 1))) for place in range(len(hidden))]
    pile = [_some(known[classes == c], size, random) for c, size in zip(hidden, sizes, strict=True)]
    shown = ~torch.isin(classes, hidden)
    if features.mixed:
        joining = shown & (torch.rand(len(classes), generator=random, device=random.device) < 0.5)
        pile.append(known[joining])
        shown &= ~joining
    return replace(features, labelled=known[shown], classes=classes[shown], pile=torch.cat(pile))


def _some(x: Tensor, number: int, random: torch.Generator) -> Tensor:
    """At most `number` random rows of x."""
    return x[_random_rows(len(x), number, random)]


def _random_rows(total: int, number: int, random: torch.Generator) -> Tensor:
    """At most `number` of the places 0 .. total - 1, in random order."""
    return torch.randperm(total, generator=random, device=random.device)[:number]


def peak_estimate(trials: Sequence[Trial]) -> Verdict:
    """The number counted and its range, which is open if there are too few vectors."""
    curve = {trial.extra: trial.silhouette or 0.0 for trial in trials}
    best, most = best_of(curve), max(curve)
    counted, factor = trials[0].counted or 0.0, trials[0].missed_by or math.inf
    if not counted:
        return Verdict(0, 0, 0, None, {"silhouette": best})
    number = min(max(round(counted), 1), most)
    low, high = max(math.ceil(counted / factor), 1), math.floor(min(counted * factor, most))
    decided = best if best == number else None
    return Verdict(number, min(low, number), max(high, number), decided, {"silhouette": best})
