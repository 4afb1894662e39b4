"""How much each image of a pile looks like a known class, and what share of the pile is of known classes.

The metric is learnt from labelled classes: whitened within the classes, averaged with the neighbours.

    s(x) = <x, labelled> + <x, means> - 2 <x, pile>

<x, labelled> and <x, pile> are mean cosines with the nearest vectors; <x, means> is the cosine with the
nearest mean of a known class. Labelled images show which s is usual. However, the metric was learnt from
them, so they are nearer to each other in it than new images of their classes are. Therefore s of a labelled
image is computed as if that image had been left out. The same share of the known images in a pile as of the
labelled images then exceeds a quantile of the labelled ones:

    pi = min_q  P_pile(s > t_q) / (1 - q),  t_q the q-quantile of the labelled

If the s of a pile have a wide gap, and the labelled images are like those above it, pi is the share above.
Otherwise, if the s form two clearly separated groups (Otsu's criterion) and the labelled images are near the
upper one, pi is the share of that group. This also works if all known images in a pile differ a little from
the labelled ones, for example in lighting or place.

Classes need not have the same sizes in the pile as among the labelled images. r of a class is the number of
images in the pile that look more like it than half of its labelled images do, by <x, labelled> + <x, means>,
over the number of labelled images that do. The nearest vectors are a quarter of the labelled images of x's
class, and r times as many of the pile, so that a class does not seem denser there because it is larger. In
the quantiles a labelled image has the weight r of its class.

Shapes: N labelled and n unlabelled vectors, D features, P of them after PCA, C classes.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

LABELLED = (5, 50)
"""Fewest and most nearest labelled images."""
UNLABELLED = (2, 100)
"""Fewest and most nearest images of the pile."""
QUANTILES = (0.5, 0.6, 0.7)
"""q: hardly any novel image exceeds these quantiles, and still many labelled ones do."""
FEW = 0.05
"""A pile in which the share of known images seems to be this or less is taken to hold none."""
MIDDLE = (0.05, 0.95)
"""Quantiles of the labelled images between which the median of the images above a gap must lie."""
STRAYS = 0.002
"""Share of a pile that may lie within a gap."""
RARE = 1e-6
"""Least weight of a class, for those that the pile does not seem to hold."""
CLEAR = 0.8
"""Share of the variance that two clearly separated groups explain; for uniform values it is 3/4."""
CHUNK = 1000
"""Vectors whose neighbours are searched for at once."""


def left_out(points: Tensor, labels: Tensor, whiten: Tensor) -> Tensor:
    """Points (N, P), classes (N,), W (P, P) → (N, P): W x / |W x| if x had not contributed to W.

    W = A^(-1/2), where A is the shrunk covariance within classes. A without x_i is A - g r r^T / (N - C),
    where r is the difference of x_i from the mean of its class and g = n / (n - 1) for a class of n images.
    Products with the others are then <W x_i + c W r, W y>, c = g <W r, W x_i> / (N - C - g |W r|²) (Sherman
    and Morrison), and the squared length of x_i is |W x_i|² + c <W r, W x_i>.
    """
    sizes = labels.bincount()
    means = points.new_zeros(len(sizes), points.shape[1]).index_add_(0, labels, points) / sizes[:, None]
    x, r = points @ whiten, (points - means[labels]) @ whiten
    g = (sizes / (sizes - 1).clamp(min=1))[labels]
    along = (r * x).sum(1)
    c = g * along / (len(points) - len(sizes) - g * r.square().sum(1)).clamp(min=1)
    return (x + c[:, None] * r) / (x.square().sum(1) + c * along).sqrt()[:, None]


class Likeness:
    """s of the labelled images, each as if it had been left out, and of the images of a pile."""

    def __init__(self, known: Tensor, left: Tensor, labels: Tensor, pile: Tensor) -> None:
        """Labelled unit vectors (N, P), the same from `left_out`, classes (N,), and the pile (n, P)."""
        self.pile, self.num_labelled = pile, len(known)
        self.x = torch.cat([left, pile])
        """(N + n, P) x, labelled images first"""
        sizes = labels.bincount()
        sums = known.new_zeros(len(sizes), known.shape[1]).index_add_(0, labels, known)
        cosines = self.x @ F.normalize(sums, dim=-1).T
        others = F.normalize(sums[labels] - known, dim=-1)  # of the same class
        cosines[: len(known)].scatter_(1, labels[:, None], (left * others).sum(1, keepdim=True))
        nearest_mean, self.classes = cosines.max(1)
        self.part = (sizes / 4).clamp(*LABELLED) / sizes
        """(C,) share of the labelled images of a class that count as nearest"""
        own = torch.full_like(self.classes, -1)
        own[: len(known)] = torch.arange(len(known))
        k = self.part[self.classes] * (sizes[self.classes] - (own >= 0).long())
        self.near = nearest(self.x, known, k, own) + nearest_mean
        """(N + n,) <x, labelled> + <x, means>"""
        typical = torch.stack([self.near[: len(known)][labels == c].median() for c in range(len(sizes))])
        above = self.near > typical[self.classes]
        usual, found = (
            self.classes[rows][above[rows]].bincount(minlength=len(sizes))
            for rows in (slice(len(known)), slice(len(known), None))
        )
        ratios = found / usual.clamp(min=1)
        self.weights = ratios[labels].clamp(min=RARE)
        """(N,) r of each labelled image's class"""
        every = torch.ones_like(pile[:, 0], dtype=torch.bool)
        self.s = self.near - 2 * self.among(every, sizes * ratios)
        """(N + n,) s, labelled images first"""

    def among(self, rows: Tensor, sizes: Tensor | None = None) -> Tensor:
        """<x, part of the pile> (N + n,), for the part that the mask `rows` (n,) selects.

        `sizes` (C,) are those of the classes in it; by default, the number of rows nearest to each class.
        """
        own = torch.full_like(self.classes, -1)
        own[self.num_labelled :][rows] = torch.arange(int(rows.sum()), device=own.device)
        if sizes is None:
            sizes = self.classes[self.num_labelled :][rows].bincount(minlength=len(self.part))
        k = self.part[self.classes] * (sizes[self.classes] - (own >= 0).long())
        return nearest(self.x, self.pile[rows], k.clamp(*UNLABELLED), own)

    def share(self) -> tuple[float, bool]:
        """pi, and whether a gap or two groups make it clear; 0 if hardly any of the pile looks known."""
        usual, found = self.s[: self.num_labelled], self.s[self.num_labelled :]
        clear = share_above_gap(usual, found)
        if clear is None:
            clear = upper_share(usual, found)
        share = known_share(usual, self.weights, found) if clear is None else clear
        return (share, clear is not None) if share > FEW else (0.0, False)

    def lowest(self, s: Tensor, part: float) -> Tensor:
        """A mask (n,) of the part of the pile that looks least known by s (N + n,)."""
        found = s[self.num_labelled :]
        return found <= found.kthvalue(min(max(round(part * len(found)), 1), len(found))).values

    def missed(self, rows: Tensor) -> float:
        """The weighted share of labelled images that look no more known than the rows (n,) of the pile."""
        usual, found = self.s[: self.num_labelled], self.s[self.num_labelled :]
        return float(((usual <= found[rows].max()) * self.weights).sum() / self.weights.sum())


def share_above_gap(usual: Tensor, found: Tensor) -> float | None:
    """The share of `found` (n,) above the uppermost clear gap; None if `usual` (N,) does not lie there too.

    A gap is clear if it is wider than the range of the middle nine tenths above it; it may hold some strays.
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
    """The share of the upper of two groups of `found` (n,); None unless clear and `usual` (N,) is near it."""
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
    """s of labelled images (N,), their weights (N,), s of a pile (n,) → pi by quantiles."""
    order, q = usual.argsort(), usual.new_tensor(QUANTILES)
    up_to = weights[order].double().cumsum(0)
    limits = usual[order][torch.searchsorted(up_to, q.double() * up_to[-1])]
    above = (found > limits[:, None]).to(q).mean(1)
    return min(float((above / (1 - q)).min()), 1.0)


def nearest(x: Tensor, others: Tensor, k: Tensor, own: Tensor) -> Tensor:
    """The mean cosine of vectors (B, P) with their k (B,) nearest others (m, P): (B,).

    If k is no whole number, the last one counts in part. `own` (B,) is the row of a vector among the others,
    which does not count; -1 if it is not among them.
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


def principal_components(centred: Tensor, number: int) -> Tensor:
    """Centred points (n, D) → the directions of the largest variance (D, number)."""
    vectors: Tensor = torch.linalg.eigh((centred.T @ centred).double())[1]
    return vectors[:, -number:].flip(1).to(centred)


def whitening(points: Tensor, labels: Tensor, shrinkage: float) -> Tensor:
    """Points (n, P) and their classes (n,) → (S + shrinkage * mean-eigenvalue(S) I)^(-1/2), (P, P).

    S is the covariance within the classes.
    """
    return shrunk_root(spectrum(points, labels), shrinkage)


def spectrum(points: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Points (n, P) and their classes (n,) → eigenvalues (P,) and eigenvectors (P, P) of S, in float64."""
    position = positions(labels)
    counts = position.bincount()
    sums = points.new_zeros(len(counts), points.shape[1]).index_add_(0, position, points)
    rest = points - (sums / counts[:, None])[position]
    within = (rest.T @ rest).double() / max(len(points) - len(counts), 1)
    values, vectors = torch.linalg.eigh(within)
    return values, vectors


def shrunk_root(eigen: tuple[Tensor, Tensor], shrinkage: float) -> Tensor:
    """The spectrum of S → (S + shrinkage * mean-eigenvalue(S) I)^(-1/2), (P, P) in float32."""
    values, vectors = eigen
    if shrinkage == math.inf or values.mean() <= 0:
        return torch.eye(len(values), device=values.device)
    scale = (values.clamp(min=0) + shrinkage * values.mean()).rsqrt()
    return (vectors * scale @ vectors.T).float()


def average(x: Tensor, pile: Tensor, k: int) -> Tensor:
    """Unit vectors (B, P) → their sums with the k nearest of the pile (n, P), at unit length.

    A member of the pile is its own nearest neighbour, so it counts twice.
    """
    k = min(k, len(pile))
    sums = [part + pile[(part @ pile.T).topk(k, dim=1).indices].sum(1) for part in torch.split(x, CHUNK)]
    return F.normalize(torch.cat(sums), dim=-1)


def positions(labels: Tensor) -> Tensor:
    """Classes (n,) → their positions (n,) among the classes that occur."""
    return torch.searchsorted(labels.bincount().nonzero().flatten(), labels)
