"""k-means in which some samples, the anchors, stay in their clusters; all restarts run in parallel.

    minimise  sum_i min_c || x_i - mu_c ||²  +  sum_j || a_j - mu_(y_j) ||²   over the centres mu

Anchors enter only through the sums of their classes, so they take no part in the products with the centres. A
centre whose cluster neither gained nor lost a sample has not moved, so its distances are kept.

Shapes: n points x, anchors a of A classes y, D features, k clusters (the anchors' first), R restarts.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

MOST_DISTANCES = 2**28
"""Distances held at once; they take 1 GiB. If not all restarts fit, they run in groups."""
SWAPS = 8
"""Swaps that are tried in parallel."""
STEPS = 10
"""Iterations of k-means after which swaps are compared."""


@dataclass(frozen=True)
class Anchors:
    """Sums over the samples whose clusters are fixed."""

    sums: Tensor
    """(A, D)"""
    counts: Tensor
    """(A,)"""
    squares: Tensor
    """() sum of all squared norms"""

    @classmethod
    def of(cls, samples: Tensor, classes: Tensor, number: int) -> "Anchors":
        """Samples (a, D) of classes (a,) → the sums of the `number` classes."""
        members = (classes[:, None] == torch.arange(number, device=classes.device)).to(samples)
        return cls(members.T @ samples, members.sum(0), samples.double().square().sum())

    @property
    def means(self) -> Tensor:
        return self.sums / self.counts[:, None]

    def among(self, k: int) -> tuple[Tensor, Tensor]:
        """Sums (k, D) and counts (k,), zero for clusters without anchors."""
        free = k - len(self.counts)
        return F.pad(self.sums, (0, 0, 0, free)), F.pad(self.counts, (0, free))

    def inertia(self, centres: Tensor) -> Tensor:
        """The sum of squared distances from the anchors to their own centres: (R, k, D) → (R,)."""
        own = centres[:, : len(self.sums)].double()
        crossed = (own * self.sums).sum((1, 2))
        return self.squares - 2 * crossed + (own.square().sum(2) * self.counts).sum(1)


@dataclass(frozen=True)
class Clusters:
    """One clustering."""

    labels: Tensor
    """(n,) cluster of each point"""
    centres: Tensor
    """(k, D)"""
    inertia: float


class KMeans:
    """k-means for any number of clusters up to `most`; fewer clusters use the first of the same seeds."""

    def __init__(
        self,
        points: Tensor,
        most: int,
        random: torch.Generator,
        *,
        restarts: int,
        iterations: int,
        anchors: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        """Choose the seeds for points (n, D); anchors are samples (a, D) with classes (a,), none empty."""
        # Distances are differences of products, which are most precise if the points lie around zero.
        self.shift = points.mean(0)
        self.points, self.iterations = points - self.shift, iterations
        samples, classes = anchors or (points[:0], torch.zeros(0, dtype=torch.int64, device=points.device))
        number = int(classes.max()) + 1 if len(classes) else 0
        self.anchors = Anchors.of(samples - self.shift, classes, number)
        self.seeds = greedy_seeds(self.points, self.anchors.means, most - number, restarts, random)

    def __call__(self, k: int) -> Clusters:
        """The clustering into k clusters with the lowest inertia of all restarts."""
        means = self.anchors.means
        group = max(MOST_DISTANCES // (len(self.points) * k), 1)
        best: Clusters | None = None
        for rows in torch.split(self.seeds[:, : k - len(means)], group):
            start = torch.cat([means.expand(len(rows), -1, -1), self.points[rows]], 1)
            labels, centres, inertia = lloyd(self.points, start, self.anchors, self.iterations)
            tightest = int(inertia.argmin())
            found = Clusters(labels[tightest], centres[tightest] + self.shift, float(inertia[tightest]))
            if best is None or found.inertia < best.inertia:
                best = found
        assert best is not None
        return best

    def improved(self, found: Clusters, rounds: int, random: torch.Generator) -> Clusters:
        """Improve a clustering by random swaps (Fränti, 2018); only without anchors.

        A swap removes a centre, with a probability inverse to the inertia this costs, and puts a new one on a
        point that is drawn like a seed. The best swap of each round is kept if it lowers the inertia.
        """
        centres, inertia, k = found.centres - self.shift, found.inertia, len(found.centres)
        if k == 1:
            return found
        squares, tried = self.points.square().sum(1), min(SWAPS, MOST_DISTANCES // (len(self.points) * k) + 1)
        for _ in range(rounds):
            least, nearest = squared_distances(centres, self.points, squares).topk(2, dim=0, largest=False)
            losses = torch.zeros_like(centres[:, 0]).index_add_(0, nearest[0], least[1] - least[0])
            leaving = (losses + 1e-9).reciprocal().multinomial(tried, replacement=True, generator=random)
            start = centres.repeat(tried, 1, 1)
            each = torch.arange(tried, device=start.device)
            start[each, leaving] = self.points[_draw(least[:1], tried, random)[0]]
            _, swapped, inertias = lloyd(self.points, start, self.anchors, STEPS)
            if float(inertias.min()) < inertia:
                centres, inertia = swapped[inertias.argmin()], float(inertias.min())
        labels, ends, inertias = lloyd(self.points, centres[None], self.anchors, self.iterations)
        return Clusters(labels[0], ends[0] + self.shift, float(inertias[0]))


def lloyd(points: Tensor, start: Tensor, anchors: Anchors, iterations: int) -> tuple[Tensor, Tensor, Tensor]:
    """Lloyd's algorithm: points (n, D), centres (R, k, D) → clusters (R, n), centres (R, k, D), inertia (R,).

    Stops when no point changes its cluster. An empty cluster keeps its centre.
    """
    R, k, D = start.shape
    centres = start.flatten(0, 1).clone()
    scores = _scores(points, centres)
    fixed_sums, fixed_counts = anchors.among(k)
    before, stale = None, torch.arange(R * k, device=points.device)
    for _ in range(iterations):
        labels = _nearest(scores, R)[0]
        if before is not None:
            moved = labels != before
            stale = torch.unique(torch.cat([before[moved], labels[moved]]))
            if not len(stale):
                break
        sums, counts = _sums(points, labels, stale, R * k)
        sums, counts = sums + fixed_sums[stale % k], counts + fixed_counts[stale % k]
        filled = (counts > 0)[:, None]
        centres[stale] = torch.where(filled, sums / counts.clamp(min=1)[:, None], centres[stale])
        scores[stale] = _scores(points, centres[stale])
        before = labels
    labels, least = _nearest(scores, R)
    found = centres.view(R, k, D)
    inertia = least.double().sum(1) + points.double().square().sum() + anchors.inertia(found)
    return labels - k * torch.arange(R, device=points.device)[:, None], found, inertia


def _scores(points: Tensor, centres: Tensor) -> Tensor:
    """Squared distances minus the squared norms of the points: (n, D), (q, D) → (q, n)."""
    return torch.addmm(centres.square().sum(1, keepdim=True), centres, points.T, alpha=-2)


def _nearest(scores: Tensor, R: int) -> tuple[Tensor, Tensor]:
    """(R k, n) → the nearest cluster of each point, numbered across restarts, and its score: both (R, n)."""
    k = len(scores) // R
    least, labels = scores.view(R, k, -1).min(1)
    return labels + k * torch.arange(R, device=scores.device)[:, None], least


def _sums(points: Tensor, labels: Tensor, wanted: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Sums (q, D) and counts (q,) of the points (n, D) with labels (R, n) in the `wanted` clusters (q,).

    `wanted` is ascending.
    """
    ids, order = labels.flatten().sort(stable=True)
    is_wanted = torch.zeros(number, dtype=torch.bool, device=points.device).index_fill_(0, wanted, True)
    rows = (order % len(points))[is_wanted[ids]]
    counts = ids.bincount(minlength=number)[wanted]
    # Rows of a bag are added one after another, so the same clusters give the same bits, on a GPU too.
    sums = F.embedding_bag(rows, points, counts.cumsum(0) - counts, mode="sum")
    return sums, counts


def squared_distances(centres: Tensor, points: Tensor, squares: Tensor) -> Tensor:
    """Squared distances of centres (q, D) and points (n, D) with squared norms (n,): (q, n)."""
    return _scores(points, centres).add_(squares).clamp_(min=0)


def greedy_seeds(
    points: Tensor, given: Tensor, number: int, restarts: int, random: torch.Generator
) -> Tensor:
    """Greedy k-means++ (Arthur and Vassilvitskii, 2007), all restarts at once: (n, D), (A, D) → (R, number).

    A seed is drawn with a probability proportional to its squared distance to the nearest centre so far,
    including the `given` ones. Of several draws, the one that lowers the sum of these distances most is kept.
    A seed does not depend on later ones, so the first seeds also serve fewer clusters.
    """
    n, device = len(points), points.device
    trials, each = 2 + int(math.log(len(given) + number)), torch.arange(restarts, device=device)
    squares = points.square().sum(1)
    seeds = []
    if len(given):
        closest = squared_distances(given, points, squares).amin(0).expand(restarts, n)
    else:
        seeds.append(torch.randint(n, (restarts,), generator=random, device=device))
        closest = squared_distances(points[seeds[0]], points, squares)
    for _ in range(number - len(seeds)):
        rows = _draw(closest, trials, random)
        reached = squared_distances(points[rows.flatten()], points, squares).view(restarts, trials, n)
        reached = torch.minimum(reached, closest[:, None])
        best = reached.sum(2).argmin(1)
        closest = reached[each, best]
        seeds.append(rows[each, best])
    return torch.stack(seeds, 1) if seeds else each.new_zeros(restarts, 0)


def _draw(weights: Tensor, number: int, random: torch.Generator) -> Tensor:
    """Draw rows with probabilities proportional to the weights: (R, n) → (R, number)."""
    cumulative = weights.double().cumsum(1)
    marks = torch.rand(len(weights), number, dtype=torch.float64, generator=random, device=weights.device)
    found = torch.searchsorted(cumulative, marks * cumulative[:, -1:])
    return found.clamp_(max=weights.shape[1] - 1)
