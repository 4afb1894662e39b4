"""Where k-means starts: greedy k-means++ (Arthur and Vassilvitskii, 2007), all restarts at once.

Shapes: n points, D features, R restarts, T trials for each seed.
"""

import math

import torch
from torch import Tensor


def squared_distances(centres: Tensor, points: Tensor, squares: Tensor) -> Tensor:
    """(q, D), (n, D), the squared norms of the points (n,) → (q, n)."""
    norms = centres.square().sum(1, keepdim=True)
    return torch.addmm(norms, centres, points.T, alpha=-2).add_(squares).clamp_(min=0)


def greedy_seeds(
    points: Tensor, given: Tensor, number: int, restarts: int, random: torch.Generator
) -> Tensor:
    """Points far from the `given` centres and from each other: (n, D), (A, D) → rows (R, number).

    A seed is drawn with a probability proportional to the squared distance to the nearest centre so far; of
    T draws the one that lowers the sum of these distances most is kept. A seed does not depend on those after
    it, so the first of many are seeds for fewer clusters.
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
    return torch.stack(seeds, 1)


def _draw(weights: Tensor, number: int, random: torch.Generator) -> Tensor:
    """Rows with probabilities proportional to the weights: (R, n) → (R, number)."""
    cumulative = weights.double().cumsum(1)
    marks = torch.rand(len(weights), number, dtype=torch.float64, generator=random, device=weights.device)
    found = torch.searchsorted(cumulative, marks * cumulative[:, -1:])
    return found.clamp_(max=weights.shape[1] - 1)
