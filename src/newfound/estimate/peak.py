"""Our estimate, for vectors: where the silhouette peaks in the metric of the known classes, corrected.

    log N = w_0 + sum_i w_i c_i,  c: log k at the peak s_k of the mean silhouette of k clusters, and the like

The vectors are whitened and averaged with their neighbours, as for `centroids`, and nothing is trained.
k-means cuts large classes into pieces before it finds the small ones. So a vector is drawn with a probability
of one over the number of vectors around it, which leaves classes of about equal sizes, and every cluster
counts the same in s, the mean of some draws. From a mixed pile, those vectors are left out that look most
like known classes, somewhat more than are known (`pseudo.likeness`). If labelled vectors look as novel as
those that are left, there is no new class.

The peak is early where classes are small or of uneven sizes, and late where known images are left. What tells
so is c (`Look`); the weights w come from cuts of CIFAR-100 and CIFAR-10 (`benchmarks/number_fit.py`). Whether
they help is asked of the user's known classes: some of them are hidden from the whitening and counted the
same way, in equal sizes and in long tails. If the peak itself is far better at that, it decides. The range is
as wide as cuts that look so demand, more or less so by how far the hidden classes are off.

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

from newfound.core.source import PileKind
from newfound.estimate.silhouette import distances, silhouettes_of
from newfound.estimate.trial import EstimateConfig, Features, Trial, Verdict, best_of, most_extra
from newfound.pseudo.kmeans import KMeans
from newfound.pseudo.likeness import Likeness, left_out
from newfound.pseudo.metric import average, positions, principal_components, whitening

FEWEST_TO_HIDE = 4
"""Known classes, of which some can be hidden."""
COMPONENTS, SHRINKAGE = 256, 1.0
"""Principal components at most; how much the covariance is shrunk."""
FEW, SAMPLE, FEWEST, DRAWN = 40, 3000, 200, 800
"""Vectors that are too few; those looked at, at most; half of them is drawn, within these bounds."""
NEIGHBOURS, SHARE, AVERAGED = 25, 0.2, (5, 60)
"""Neighbours in an average at first; then this share of a class, within bounds."""
RESTARTS, STEPS, CLOSE, SOFTNESS = 4, 15, 0.6, 0.05
"""Runs of k-means on a draw, and their steps; the cosine from which vectors are close, and how gradually."""
SURELY, FEWEST_NOVEL, NONE, CHANCES, MOST_LEFT = 0.85, 50, 0.03, 2.0, 1.5
"""Of a mixed pile: the part of the novel vectors that is looked at, since known ones would count as classes,
and the fewest, but not more than half; by how much they must exceed the part of labelled ones that look as
novel, also in standard deviations, to hold new classes; known ones among them, at most."""
DENSE, RATIO, TAU = 10, 1.2, 0.01
"""The largest of the small numbers of clusters; the ratio of the others; of the softmax over silhouettes."""
TURNS, ENOUGH, TAILS = 6, 200, (1, 10, 50)
"""Times that classes are hidden; images of the largest one; how many times as many as of the smallest."""
BETTER, PRIOR, WIDTH, MISSED = 1.2, 12, 1.28, 3.0
"""How many times as good the peak itself has to be to decide; how many turns the cuts behind the weights
count for; deviations to either end of a range that is to hold four of five; those if no class is seen."""

FITTED = json.loads(Path(__file__).with_name("weights.json").read_text())
"""For each kind of pile w, and what predicts the logarithm of the deviation of log N in the same way."""


def peak_grid(most: int) -> list[int]:
    """Numbers of clusters from 2 to `most`: all small ones, then in steps."""
    steps = math.ceil(math.log(max(most / DENSE, 1), RATIO))
    larger = (round(DENSE * RATIO**step) for step in range(steps))
    return sorted({*range(2, min(DENSE, most)), *larger, most})


def peak_trials(
    features: Features, config: EstimateConfig, random: torch.Generator, done: Mapping[int, Trial]
) -> Iterator[Trial]:
    """The silhouette for each number of clusters; all are made at once, so what is `done` saves nothing."""
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
    """What a pile looks like."""

    pile: PileKind
    curve: dict[int, float]
    """Number of clusters → silhouette; all 0 where nothing looks novel."""
    signs: dict[str, float]
    """c; none where nothing looks novel."""

    @classmethod
    def of(cls, features: Features, config: EstimateConfig, random: torch.Generator) -> "Look":
        """Features of P components."""
        kind: PileKind = "mixed" if features.mixed else "novel"
        grid = peak_grid(most_extra(len(features.pile), config))
        whiten = whitening(features.labelled, features.classes, SHRINKAGE)
        rows = _drawn(len(features.labelled), SAMPLE, random)
        pile = F.normalize(_some(features.pile, SAMPLE, random) @ whiten, dim=-1)
        signs = {}
        if features.mixed:
            labels = positions(features.classes)
            left = left_out(features.labelled, labels, whiten)[rows]
            known, labels = F.normalize(features.labelled[rows] @ whiten, dim=-1), positions(labels[rows])
            likeness = Likeness(known, left, labels, pile)
            share, fewest = likeness.share()[0], min(FEWEST_NOVEL / len(pile), 0.5)
            novel = likeness.lowest(likeness.s, max(SURELY * (1 - share), fewest) if share else 1)
            missed, part = likeness.missed(novel), float(novel.double().mean())
            chance = math.sqrt(missed * (1 - missed) / len(known) + part * (1 - part) / len(pile))
            if share and part - missed <= NONE + CHANCES * chance:
                return cls(kind, dict.fromkeys(grid, 0.0), {})
            signs = {
                "left": min(share * missed / part, MOST_LEFT),
                "out": share,
                "known": math.log(int(labels.max()) + 1),
            }
            pile = pile[novel]
        n = len(pile)
        number = min(max(min(n // 2, DRAWN), FEWEST), n)
        grid = [k for k in grid if k <= max(number // 4, 4)]
        first = Draw.of(pile, NEIGHBOURS, number, grid, random)
        fewest, most = AVERAGED
        neighbours = int(min(max(SHARE * n / math.exp(first.peak()), fewest), most))
        draws = [Draw.of(pile, neighbours, number, grid, random) for _ in range(2)]
        curve = {k: sum(draw.by_cluster[k] for draw in draws) / len(draws) for k in grid}
        plain = Draw.of(pile, NEIGHBOURS, number, grid, random, thin=False)
        peak = soft_peak(curve)
        signs |= {
            "peak": peak,
            "first": soft_peak(first.by_vector),
            "plain": soft_peak(plain.by_vector),
            "images": math.log(n),
            "uneven": sum(draw.unevenness(max(round(math.exp(peak)), 2)) for draw in draws) / len(draws),
        }
        return cls(kind, curve, signs)


class Draw:
    """Vectors drawn from a pile, and their silhouettes."""

    def __init__(self, seen: Tensor, rows: Tensor, grid: Sequence[int], random: torch.Generator) -> None:
        """All vectors, averaged (n, P), and the rows that are drawn."""
        self.seen = seen
        self.kmeans = KMeans(seen[rows], max(grid), random, restarts=RESTARTS, iterations=STEPS)
        self.by_cluster: dict[int, float] = {}
        self.by_vector: dict[int, float] = {}
        every = torch.arange(len(rows), device=rows.device)
        between = distances(self.kmeans.points, every)
        for k in grid:
            clusters = self.kmeans(k).labels
            scores, sizes = silhouettes_of(between, every, clusters, k), clusters.bincount(minlength=k)
            means = torch.zeros_like(sizes, dtype=scores.dtype).index_add_(0, clusters, scores) / sizes
            self.by_cluster[k], self.by_vector[k] = float(means[sizes > 0].mean()), float(scores.mean())

    @classmethod
    def of(
        cls,
        pile: Tensor,
        neighbours: int,
        number: int,
        grid: Sequence[int],
        random: torch.Generator,
        *,
        thin: bool = True,
    ) -> "Draw":
        """`number` of the pile (n, P), if `thin` against the density."""
        seen = average(pile, pile, neighbours)
        crowd = torch.ones_like(seen[:, 0])
        if thin:
            crowd = ((seen @ seen.T - CLOSE) / SOFTNESS).sigmoid().sum(1).clamp(min=neighbours)
        return cls(seen, torch.multinomial(1 / crowd, number, generator=random), grid, random)

    def peak(self) -> float:
        return soft_peak(self.by_cluster)

    def unevenness(self, k: int) -> float:
        """The standard deviation of the logarithm of the sizes of k clusters, of all vectors."""
        centres = self.kmeans(k).centres
        sizes = torch.cdist(self.seen, centres).argmin(1).bincount(minlength=k)
        return float(sizes.clamp(min=1).double().log().std())


def soft_peak(silhouettes: Mapping[int, float]) -> float:
    """log k at the peak, between those of almost the same height."""
    weights = (torch.tensor(list(silhouettes.values()), dtype=torch.float64) / TAU).softmax(0)
    return sum(float(w) * math.log(k) for w, k in zip(weights, silhouettes, strict=True))


def corrected(found: Look) -> float:
    """log N of a pile in which something looks novel."""
    return _predicted("number", found)


def deviation(found: Look) -> float:
    """That of log N."""
    return math.exp(_predicted("deviation", found))


def _predicted(what: str, found: Look) -> float:
    weights: dict[str, float] = FITTED[found.pile][what]
    return weights[""] + sum(weights[name] * value for name, value in found.signs.items())


def judged(
    found: Look, features: Features, config: EstimateConfig, random: torch.Generator
) -> tuple[float, float | None]:
    """The number of classes, and the factor by which it may be off, unless the images are too few to say."""
    if not found.signs:
        return 0.0, None
    if len(features.pile) < FEW:
        return math.exp(found.signs["peak"]), None
    errors = torch.tensor(list(_errors(features, config, random)), dtype=torch.float64).view(-1, 2)
    squares = errors.square().sum(0)
    by_peak = bool(BETTER**2 * squares[0] < squares[1])
    more = (float(squares[0 if by_peak else 1]) + PRIOR) / (len(errors) + PRIOR)
    log_number = found.signs["peak"] if by_peak else corrected(found)
    return math.exp(log_number), math.exp(WIDTH * deviation(found) * math.sqrt(more))


def _errors(
    features: Features, config: EstimateConfig, random: torch.Generator
) -> Iterator[tuple[float, float]]:
    """By how many deviations the logarithm of the number of hidden classes is missed: by the peak, by N."""
    number = int(features.classes.max()) + 1
    for turn in range(TURNS if number >= FEWEST_TO_HIDE else 0):
        order = torch.randperm(number, generator=random, device=random.device)
        least, most = max(number // 3, 2), 2 * number // 3
        hidden = order[: least + turn * (most - least + 1) // TURNS]
        found = Look.of(_pretended(features, hidden, TAILS[turn % len(TAILS)], random), config, random)
        wanted = math.log(len(hidden))
        if found.signs:
            unit = deviation(found)
            yield (found.signs["peak"] - wanted) / unit, (corrected(found) - wanted) / unit
        else:  # as bad as can be
            yield MISSED, MISSED


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
    return x[_drawn(len(x), number, random)]


def _drawn(of: int, number: int, random: torch.Generator) -> Tensor:
    """`number` places at most, at random."""
    return torch.randperm(of, generator=random, device=random.device)[:number]


def peak_estimate(trials: Sequence[Trial]) -> Verdict:
    """The number counted; the range is as wide as hidden classes demand, and open if there are none."""
    curve = {trial.extra: trial.silhouette or 0.0 for trial in trials}
    best, most = best_of(curve), max(curve)
    counted, factor = trials[0].counted or 0.0, trials[0].missed_by or math.inf
    if not counted:
        return Verdict(0, 0, 0, None, {"silhouette": best})
    number = min(max(round(counted), 1), most)
    low, high = max(math.ceil(counted / factor), 1), math.floor(min(counted * factor, most))
    decided = best if best == number else None
    return Verdict(number, min(low, number), max(high, number), decided, {"silhouette": best})
