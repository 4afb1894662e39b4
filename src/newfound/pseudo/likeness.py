"""How much an image of a pile looks like one of a known class, and how many of them do.

    s(x) = <x, labelled> + <x, means> - 2 <x, pile>

<x, .> is the mean cosine with the nearest vectors, and the cosine with the nearest of the means of the known
classes. Labelled images tell which s is usual. They taught the metric, though, so they are nearer to each
other in it than new images of their classes are: s of a labelled image is what it would be had that image
been left out. Then as many of the known images of a pile exceed a quantile of the labelled as of these:

    pi = min_q  P_pile(s > t_q) / (1 - q),  t_q the q-quantile of the labelled

Where there is a wide gap in the s of a pile, and the labelled are like what is above it, pi is the share
above. Otherwise, where the s form two groups that are clearly apart (Otsu's criterion), pi is the share of
the upper one, if the labelled are near it. That also holds where the known images of a pile all differ a
little from the labelled ones, by their light or their place.

Classes need not have the same sizes in the pile as among the labelled. r is how many images of the pile look
more like a class than half of its labelled ones do, by <x, labelled> + <x, means>, over how many of these do.
Of the nearest, a quarter of the labelled images of x's class count, and r times as many of the pile, so that
a class is not denser there for being larger. In the quantiles a labelled image has the weight r of its class.

Shapes: N labelled and n unlabelled vectors, P features, C classes.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.pseudo.metric import CHUNK

LABELLED, UNLABELLED = (5, 50), (2, 100)
"""The fewest and the most nearest ones that count."""
QUANTILES = (0.5, 0.6, 0.7)
"""q; where hardly any novel image looks so known, and still many labelled ones do."""
FEW = 0.08
"""The share of known images that a pile must seem to have, to hold any."""
MIDDLE, STRAYS = (0.05, 0.95), 0.002
"""The median of the images above a gap is between these quantiles of the labelled; the share of a pile that a
gap may hold."""
RARE = 1e-6
"""The weight of a class that the pile does not seem to hold."""
CLEAR = 0.8
"""The share of the variance that two groups explain if they are clearly apart; of even values it is 3/4."""


def left_out(points: Tensor, labels: Tensor, whiten: Tensor) -> Tensor:
    """Points (N, P), classes (N,), W (P, P) → (N, P): W x / |W x|, had x not contributed to W.

    W = A^(-1/2) with A the covariance within classes, shrunk. A without x_i is A - g r r^T / (N - C), r its
    difference from the mean of its class and g = n / (n - 1) for n images of it. Products with the others are
    then <W x_i + c W r, W y>, c = g <W r, W x_i> / (N - C - g |W r|²) (Sherman and Morrison), and x_i has the
    squared length |W x_i|² + c <W r, W x_i>, in place of that of a unit vector.
    """
    sizes = labels.bincount()
    means = points.new_zeros(len(sizes), points.shape[1]).index_add_(0, labels, points) / sizes[:, None]
    x, r = points @ whiten, (points - means[labels]) @ whiten
    g = (sizes / (sizes - 1).clamp(min=1))[labels]
    along = (r * x).sum(1)
    c = g * along / (len(points) - len(sizes) - g * r.square().sum(1)).clamp(min=1)
    return (x + c[:, None] * r) / (x.square().sum(1) + c * along).sqrt()[:, None]


class Likeness:
    """s of the labelled images, each left out, and of those of a pile."""

    def __init__(self, known: Tensor, left: Tensor, labels: Tensor, pile: Tensor) -> None:
        """Unit vectors of the labelled (N, P), the same left out, their classes (N,), the pile's (n, P)."""
        self.pile, self.num_labelled = pile, len(known)
        self.x = torch.cat([left, pile])
        """What is compared with the others, (N + n, P)."""
        sizes = labels.bincount()
        sums = known.new_zeros(len(sizes), known.shape[1]).index_add_(0, labels, known)
        cosines = self.x @ F.normalize(sums, dim=-1).T
        others = F.normalize(sums[labels] - known, dim=-1)  # of the same class
        cosines[: len(known)].scatter_(1, labels[:, None], (left * others).sum(1, keepdim=True))
        nearest_mean, self.classes = cosines.max(1)
        self.part = (sizes / 4).clamp(*LABELLED) / sizes
        """The part of a class that counts (C,)."""
        own = torch.full_like(self.classes, -1)
        own[: len(known)] = torch.arange(len(known))
        k = self.part[self.classes] * (sizes[self.classes] - (own >= 0).long())
        self.near = nearest(self.x, known, k, own) + nearest_mean
        """<x, labelled> + <x, means> (N + n,)."""
        typical = torch.stack([self.near[: len(known)][labels == c].median() for c in range(len(sizes))])
        above = self.near > typical[self.classes]
        usual, found = (
            self.classes[rows][above[rows]].bincount(minlength=len(sizes))
            for rows in (slice(len(known)), slice(len(known), None))
        )
        ratios = found / usual.clamp(min=1)
        self.weights = ratios[labels].clamp(min=RARE)
        """r (N,), of the labelled images."""
        every = torch.ones_like(pile[:, 0], dtype=torch.bool)
        self.s = self.near - 2 * self.among(every, sizes * ratios)
        """(N + n,)"""

    def among(self, rows: Tensor, sizes: Tensor | None = None) -> Tensor:
        """<x, some of the pile> (N + n,), the rows (n,) being true for them.

        The sizes (C,) of the classes there, if not given, count the rows that are nearest to each.
        """
        own = torch.full_like(self.classes, -1)
        own[self.num_labelled :][rows] = torch.arange(int(rows.sum()), device=own.device)
        if sizes is None:
            sizes = self.classes[self.num_labelled :][rows].bincount(minlength=len(self.part))
        k = self.part[self.classes] * (sizes[self.classes] - (own >= 0).long())
        return nearest(self.x, self.pile[rows], k.clamp(*UNLABELLED), own)

    def share(self) -> tuple[float, bool]:
        """pi, and whether it is clear from a gap or two groups; 0 if hardly any of the pile looks known."""
        usual, found = self.s[: self.num_labelled], self.s[self.num_labelled :]
        told = share_above_gap(usual, found)
        if told is None:
            told = upper_share(usual, found)
        share = known_share(usual, self.weights, found) if told is None else told
        return (share, told is not None) if share > FEW else (0.0, False)

    def lowest(self, s: Tensor, part: float) -> Tensor:
        """Which are the part of the pile (n,) that looks least known by s (N + n,)."""
        found = s[self.num_labelled :]
        return found <= found.kthvalue(min(max(round(part * len(found)), 1), len(found))).values

    def missed(self, rows: Tensor) -> float:
        """The share of known images that look no more known than the rows (n,) of the pile."""
        usual, found = self.s[: self.num_labelled], self.s[self.num_labelled :]
        return float(((usual <= found[rows].max()) * self.weights).sum() / self.weights.sum())


def share_above_gap(usual: Tensor, found: Tensor) -> float | None:
    """The share of found (n,) above the uppermost clear gap, if usual (N,) is there too.

    A gap is clear if it is wider than the range of nine tenths of what is above it; it may hold some strays.
    """
    values, n = found.double().sort(descending=True).values, len(found)
    wide = 1 + int(STRAYS * n)
    above = torch.arange(1, n - wide + 1, device=values.device)
    spread = values[above // 20] - values[above - 1 - above // 20]
    clear = (values[:-wide] - values[wide:] > spread) & (above > FEW * n)
    low, high = usual.double().quantile(usual.new_tensor(MIDDLE).double())
    middle = values[above // 2]
    places = (clear & (middle > low) & (middle < high)).nonzero().flatten()
    return float(above[places[0]]) / n if len(places) else None


def upper_share(usual: Tensor, found: Tensor) -> float | None:
    """The share of the upper of two groups of found (n,), if they are clear and usual (N,) is near it."""
    if len(found) == 1:
        return None
    values = found.double().sort().values
    below = torch.arange(1, len(values), device=values.device)
    above, sums = len(values) - below, values.cumsum(0)
    low, high = sums[:-1] / below, (sums[-1] - sums[:-1]) / above
    between = below * above * (high - low).square() / len(values) ** 2
    best = int(between.argmax())
    if (
        between[best] < CLEAR * values.var(correction=0)
        or usual.median() - high[best] > high[best] - low[best]
    ):
        return None
    return float(above[best]) / len(values)


def known_share(usual: Tensor, weights: Tensor, found: Tensor) -> float:
    """s of labelled images (N,), their weights (N,), s of a pile (n,) → pi."""
    order, q = usual.argsort(), usual.new_tensor(QUANTILES)
    up_to = weights[order].double().cumsum(0)
    limits = usual[order][torch.searchsorted(up_to, q.double() * up_to[-1])]
    above = (found > limits[:, None]).to(q).mean(1)
    return min(float((above / (1 - q)).min()), 1.0)


def nearest(x: Tensor, others: Tensor, k: Tensor, own: Tensor) -> Tensor:
    """The mean cosine of vectors (B, P) with the k (B,) nearest others (m, P), the last in part: (B,).

    `own` (B,) is the place of a vector among the others, which does not count; -1 if it is not there.
    """
    most, means = max(min(math.ceil(k.max()), len(others) - 1), 1), []
    for part, number, place in zip(*(torch.split(each, CHUNK) for each in (x, k, own)), strict=True):
        cosines = part @ others.T
        rows = (place >= 0).nonzero().flatten()
        cosines[rows, place[rows]] = -1
        number = number.clamp(1, most)[:, None]
        weights = (number - torch.arange(most, device=x.device)).clamp(0, 1)
        means.append((cosines.topk(most, dim=1).values * weights).sum(1) / number[:, 0])
    return torch.cat(means)
