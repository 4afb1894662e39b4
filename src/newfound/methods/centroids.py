"""Centroids: clusters in the metric that the known classes teach (ours), for embeddings.

    x = unit(W P (z - mean)),  W = (S + lambda mean-eigenvalue(S) I)^(-1/2),  S: covariance within classes
    x' = unit(x + sum of the k nearest x),  centres: k-means of x', then  mu_c = unit(sum_i q_ic x'_i),
    q_i = softmax(x'_i mu / tau + b),  b such that every class has its share of the images (Sinkhorn)

No network is trained. How much to whiten is decided by hiding known classes: the lambda that finds them best
is used for the novel ones. Equal shares gain where classes are of equal size and cost more where they are
not, so they are asked for only if the clusters of the pile are hardly more uneven than those of hidden
classes, of which equally many images are taken. Otherwise b = 0.

A mixed pile is divided first, by how much more like known classes than like novel ones an image is:

    s(x) = <x, labelled> + <x, means> - <x, pile> - <x, mu>

<x, .> is the mean cosine with the nearest images, a quarter as many as a known class has, and the cosine with
the nearest of the `means` of known classes and of the `mu` of novel ones; before there is a mu the pile
counts twice. No image counts as its own neighbour, so the known images of a pile score as the labelled ones
do, and these tell where to divide: where the pile lags most behind them. If hardly any of the pile scores as
half of the labelled do, the pile is one of novel classes. What is not known is clustered as such a pile is.
A known class that is large in the pile is denser there than among the labelled images, which s mistakes for
novelty. So a cluster is a known class if its mean is as near to that of the class as means of halves of such
classes are to each other; in a pile that seems to be one of novel classes also nearer than half the angle
between any two known classes. There is one cluster more for each of them, their images are known, and the
rest is clustered. With its mu the pile is divided again.

So far an image is known or not. Now a softmax regression over all classes, which starts at the means and the
mu and is pulled back to them, learns from the labels and from its own answers on the pile, a few times:

    q_i = softmax(V x_i / tau + b),  targets (q_i + mean of q over x_i and the k nearest) / 2

Labelled images are among the nearest, with their labels for q. b is such that the known classes together have
a share pi of the pile and the novel ones the rest, in equal shares if they are asked for. pi is the larger of
two estimates: what is not novel, and twice what scores above half of the labelled.

Shapes: n unlabelled samples, D features, P principal components, C = C_l + C_u classes.
"""

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.learner import Bank, Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import Count, Positive, PositiveFloat, TrainConfig, setting
from newfound.methods._recipes import DIGITS_PRETRAINING
from newfound.metrics.clustering import hungarian_accuracy
from newfound.pseudo.kmeans import KMeans
from newfound.pseudo.metric import (
    CHUNK,
    average,
    positions,
    principal_components,
    shrunk_root,
    spectrum,
    whitening,
)

log = logging.getLogger(__name__)
SHRINKAGES = (math.inf, 10.0, 3.0, 1.0, 0.3)
"""Values of lambda, the most cautious first; infinity: no whitening."""
FEWEST = 4
"""Known classes, of which some can be hidden."""
ENOUGH = 100
"""Images of a hidden class that are clustered, at most."""
ITERATIONS, SWAPPED, ROUNDS, SCALINGS = 100, 20, 20, 50
"""Of k-means; rounds of swaps after it; of assignments and centres; of Sinkhorn in each."""
SLACK = 1.8
"""How much more uneven than those of hidden classes the clusters of a pile may be to count as equal."""
FEW, NONE = 0.05, 1e-4
"""The share of known images that a pile must seem to have, to hold any; the share that they get if not."""
NEAREST = 5, 50
"""The fewest and the most neighbours that s looks at."""
HALVES, RESTARTS = 0.1, 5
"""The share of known classes whose halves are farther from each other than a cluster may be from its class;
runs of k-means to find such clusters."""
REFINEMENTS, PULL, STEPS = 5, 0.003, 8
"""Regressions; how strongly each is pulled back to where the first started; steps of L-BFGS in each."""
SAME = 0.9999
"""Vectors with at least this cosine are of the same image."""


@register(
    "centroids",
    ours={
        "digits": DIGITS_PRETRAINING,
        "own": {"pretrain.epochs": 100, "pretrain.batch_size": 64, "pretrain.lr": 0.05},
        # Its work grows with the square of what it is given.
        "vectors": {"encoder": "identity", "pretrain.epochs": 0, "sample": 50_000},
    },
)
class Centroids(Method):
    """Centres of the known classes and of the clusters, in a whitened space."""

    joint = True
    made_for = "mixed"
    mixed = True
    cache_version = 2
    views = Views()
    schedules = {"pretrain": TrainConfig(), "discover": TrainConfig(epochs=0)}

    @dataclass(frozen=True)
    class Config:
        components: Positive = setting(512, "principal components, at most; no more than half of the images")
        neighbours: Count = setting(10, "neighbours that a vector is averaged with")
        restarts: Positive = setting(10, "runs of k-means; swaps improve the one with the lowest inertia")
        trials: Count = setting(
            10, "times that known classes are hidden to choose how much to whiten; 0: not at all"
        )
        prior: Literal["auto", "equal", "learned"] = setting(
            "auto",
            "sizes of the classes; auto: equal if four classes are known and clusters are even enough",
        )
        tau: PositiveFloat = setting(0.1, "softmax temperature")

    mean: Tensor
    projection: Tensor
    pile: Tensor
    centres: Tensor
    offsets: Tensor

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.requires_grad_(False)
        P = min(config.components, encoder.dim, max((task.num_labelled + task.num_unlabelled) // 2, 1))
        self.register_buffer("mean", torch.zeros(encoder.dim))
        self.register_buffer("projection", torch.eye(encoder.dim, P))
        self.register_buffer("pile", torch.zeros(task.num_unlabelled if task.pile == "novel" else 0, P))
        self.register_buffer("centres", torch.zeros(task.num_classes, P))
        self.register_buffer("offsets", torch.zeros(task.num_classes))

    def begin(self, bank: Bank) -> None:
        known, pile = (F.normalize(each(self.encoder), dim=-1) for each in (bank.labelled, bank.unlabelled))
        random = torch.Generator(known.device).manual_seed(int(torch.randint(2**31, ()).item()))
        both = torch.cat([known, pile])
        self.mean.copy_(both.mean(0))
        basis = principal_components(both - self.mean, self.projection.shape[1])
        known, pile = (known - self.mean) @ basis, (pile - self.mean) @ basis
        shrinkage, usual = self.choose(known, bank.labels)
        whiten = whitening(known, bank.labels, shrinkage)
        self.projection.copy_(basis @ whiten)
        known, pile = (F.normalize(each @ whiten, dim=-1) for each in (known, pile))
        num_known, k, tau = self.task.num_known, self.task.num_novel, self.config.tau
        sums = torch.zeros_like(self.centres[:num_known]).index_add_(0, bank.labels, known)
        self.centres[:num_known] = F.normalize(sums, dim=-1)
        if not k:
            return
        mixed, novel = self.task.pile == "mixed", torch.ones_like(pile[:, 0], dtype=torch.bool)
        if mixed:
            both = torch.cat([known, pile])
            others = F.normalize(sums[bank.labels] - known, dim=-1)  # of the same class
            means = both @ self.centres[:num_known].T
            means[: len(known)].scatter_(1, bank.labels[:, None], (known * others).sum(1, keepdim=True))
            near = self.near(both, known) + means.amax(1)
            share, novel = divided(near - 2 * self.near(both, pile), len(known), k)
            novel = self.without_known_classes(pile, novel, known, bank.labels, strict=not share)
        seen = average(pile[novel], pile[novel], self.config.neighbours)
        centres = self.cluster(seen, k, self.config.restarts, random, SWAPPED)
        even = unevenness(seen, centres) <= SLACK * usual
        equal = even if self.config.prior == "auto" else self.config.prior == "equal"
        log.debug("lambda %g, classes of %s sizes", shrinkage, "equal" if equal else "their own")
        if equal:
            centres, self.offsets[num_known:] = settle(seen, centres, tau)
        self.centres[num_known:] = centres
        if not mixed:
            self.pile.copy_(pile)
            return
        rest = pile[novel]
        share, novel = divided(near - self.near(both, rest) - (both @ centres.T).amax(1), len(known), k)
        q = F.pad((pile @ self.centres[:num_known].T / tau).softmax(1), (0, k))
        seen = average(pile[novel], rest, self.config.neighbours)
        q[novel] = F.pad((seen @ centres.T / tau + self.offsets[num_known:]).softmax(1), (num_known, 0))
        groups = F.pad(torch.arange(k) + 1 if equal else torch.ones(k, dtype=torch.long), (num_known, 0))
        shares = torch.tensor([share, *([(1 - share) / k] * k if equal else [1 - share])]).clamp(min=NONE)
        self.refine(known, bank.labels, pile, q, groups.to(q.device), shares.to(q))

    def without_known_classes(
        self, pile: Tensor, novel: Tensor, known: Tensor, labels: Tensor, strict: bool
    ) -> Tensor:
        """Which of the pile are novel (n,), less the clusters that are known classes, from the data alone."""
        x, more, k = pile[novel], 0, self.task.num_novel
        random = torch.Generator(x.device).manual_seed(0)
        seen = average(x, x, self.config.neighbours)
        while True:  # with a cluster more for each known class, until there is one for all of them
            centres = self.cluster(seen, min(k + more, len(x)), RESTARTS, random)
            clusters = (seen @ centres.T).argmax(1)
            again = of_known_classes(x, clusters, known, labels, strict)
            number = min(int((clusters[again].bincount() > 0).sum()), self.task.num_known)
            if number <= more:
                break
            more = number
        rest = novel.clone()
        rest[novel.nonzero().flatten()[again]] = False
        return rest if int(rest.sum()) >= k else novel

    def near(self, x: Tensor, others: Tensor) -> Tensor:
        """<x, others> (B,)."""
        fewest, most = NEAREST
        quarter = self.task.num_labelled // (4 * self.task.num_known)
        return nearest(x, others, min(max(quarter, fewest), most))

    def refine(
        self, known: Tensor, labels: Tensor, pile: Tensor, q: Tensor, groups: Tensor, shares: Tensor
    ) -> None:
        """Fit V and b to labels (n_l,) and to the pile's answers, of which q (n, C) are the first.

        Groups (C,) of classes have their shares (G,) of the pile. V and b are stored as centres and offsets.
        """
        x, y, start = torch.cat([known, pile]), F.one_hot(labels, len(groups)).to(q), self.centres.clone()
        k = min(self.config.neighbours + 1, len(x))
        near = torch.cat([(part @ x.T).topk(k, dim=1).indices for part in torch.split(pile, CHUNK)])
        for _ in range(REFINEMENTS):
            targets = torch.cat([y, (q + torch.cat([y, q])[near].mean(1)) / 2])
            self.centres.copy_(regress(x, targets, self.centres, start, self.config.tau))
            logits = pile @ self.centres.T / self.config.tau
            self.offsets.copy_(balance(logits, groups, shares))
            q = (logits + self.offsets).softmax(1)

    def choose(self, points: Tensor, labels: Tensor) -> tuple[float, float]:
        """The lambda that finds hidden known classes best, and how uneven their clusters are, on average.

        Of equals the most cautious. It depends on the data alone, so that runs with other seeds agree on it.
        """
        scores, uneven = dict.fromkeys(SHRINKAGES, 0.0), dict.fromkeys(SHRINKAGES, 0.0)
        if self.task.num_known < FEWEST:
            return SHRINKAGES[0], 0.0
        random = torch.Generator(points.device).manual_seed(0)
        for hidden in self._hidden_classes(random):
            rows = torch.isin(labels, hidden)
            number = min(int(labels[rows].bincount()[hidden].min().clamp(min=10)), ENOUGH)
            drawn = _at_most(labels[rows], number, random)
            classes = positions(labels[rows][drawn])
            within = spectrum(points[~rows], labels[~rows])
            for shrinkage in SHRINKAGES:
                x = F.normalize(points[rows][drawn] @ shrunk_root(within, shrinkage), dim=-1)
                seen = average(x, x, self.config.neighbours)
                centres = self.cluster(seen, len(hidden), 5, random)
                scores[shrinkage] += hungarian_accuracy((seen @ centres.T).argmax(1), classes)
                uneven[shrinkage] += unevenness(seen, centres)
        trials = max(self.config.trials, 1)
        best = max(SHRINKAGES, key=lambda each: round(scores[each] / trials, 3))
        return best, uneven[best] / trials

    def _hidden_classes(self, random: torch.Generator) -> Iterator[Tensor]:
        """As many known classes as are looked for, half of them at most, drawn anew each time."""
        number = min(max(self.task.num_novel, 2), self.task.num_known // 2)
        for _ in range(self.config.trials):
            order = torch.randperm(self.task.num_known, generator=random, device=random.device)
            yield order[:number]

    def cluster(self, x: Tensor, k: int, restarts: int, random: torch.Generator, swapped: int = 0) -> Tensor:
        """Unit vectors (n, P) → unit centres (k, P) of k-means, improved by rounds of swaps."""
        kmeans = KMeans(x, k, random, restarts=restarts, iterations=ITERATIONS)
        return F.normalize(kmeans.improved(kmeans(k), swapped, random).centres, dim=-1)

    def whitened(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) images or (B, D) vectors → x (B, P), in float32 under any autocast."""
        z = F.normalize(self.encoder(images).float(), dim=-1)
        with torch.autocast(z.device.type, enabled=False):
            return F.normalize((z - self.mean) @ self.projection, dim=-1)

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        x = torch.stack([self.whitened(view) for views in batch.views for view in views])
        return {"cosines": x @ self.centres.T}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        novel = out["cosines"][:, batch.num_labelled :, self.task.num_known :]
        return {"distance": 1 - novel.amax(-1).mean()}

    def scores(self, images: Tensor) -> Tensor:
        return self.both_scores(images)[0]

    def both_scores(self, images: Tensor) -> tuple[Tensor, Tensor]:
        x = self.whitened(images)
        with torch.autocast(x.device.type, enabled=False):  # near `limit`, cosines hardly differ
            return self._both(x)

    def _both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Scores among all classes (1, B, C) and among novel ones (1, B, C_u) of x (B, P)."""
        tau, num_known = self.config.tau, self.task.num_known
        joint = x @ self.centres.T[None] / tau
        if self.task.pile == "mixed":
            joint = joint + self.offsets
            return joint, joint[..., num_known:]
        seen = average(x, self.pile, self.config.neighbours)
        return joint, (seen @ self.centres[num_known:].T / tau + self.offsets[num_known:])[None]


def settle(x: Tensor, start: Tensor, tau: float) -> tuple[Tensor, Tensor]:
    """Unit vectors (n, P), centres (k, P) → centres and offsets b (k,) after some rounds, of equal shares."""
    centres, each = start, torch.arange(len(start), device=x.device)
    shares = torch.full((len(start),), 1 / len(start), device=x.device)
    for _ in range(ROUNDS):
        logits = x @ centres.T / tau
        centres = F.normalize((logits + balance(logits, each, shares)).softmax(1).T @ x, dim=-1)
    return centres, balance(x @ centres.T / tau, each, shares)


def divided(s: Tensor, num_labelled: int, least: int) -> tuple[float, Tensor]:
    """s of labelled images, then of the pile → pi, and which of the pile are novel (n,), at least so many."""
    usual, found = s[:num_labelled], s[num_labelled:]
    share = 2 * float((found > usual.median()).float().mean())
    if share <= FEW:
        return 0.0, torch.ones_like(found, dtype=torch.bool)
    steps = torch.cat([usual, found]).sort().values
    up_to = [torch.searchsorted(each.sort().values, steps, right=True) / len(each) for each in (usual, found)]
    novel = found <= torch.maximum(steps[(up_to[1] - up_to[0]).argmax()], found.kthvalue(least).values)
    return min(max(share, 1 - float(novel.float().mean())), 1 - least / len(found)), novel


def of_known_classes(x: Tensor, clusters: Tensor, known: Tensor, labels: Tensor, strict: bool) -> Tensor:
    """Which vectors (n, P) are in clusters (n,) that are known classes: known vectors (N, P), labels (N,).

    Two known classes are never taken for one, so the limit is above the cosines c of their means. If `strict`
    it is above the cosine of half the angle between them, sqrt((1 + c) / 2).
    """
    rows = labels.argsort(stable=True)
    first, second = (
        means_of(known[each], labels[each], int(labels.max()) + 1) for each in (rows[::2], rows[1::2])
    )
    means = means_of(known, labels, len(first))
    between = (means @ means.T).fill_diagonal_(-1).max()
    limit = torch.maximum(
        (first * second).sum(1).quantile(HALVES), ((1 + between) / 2).sqrt() if strict else between
    )
    found = means_of(x, clusters, int(clusters.max()) + 1) @ means.T
    return (found.amax(1) >= limit)[clusters]


def means_of(x: Tensor, labels: Tensor, number: int) -> Tensor:
    """Unit vectors (n, P), classes (n,) → the directions of the means of all classes (number, P)."""
    return F.normalize(x.new_zeros(number, x.shape[1]).index_add_(0, labels, x), dim=-1)


def nearest(x: Tensor, others: Tensor, k: int) -> Tensor:
    """The mean cosine of unit vectors (B, P) with the k nearest others (n, P), themselves apart: (B,)."""
    others = F.pad(others, (0, 0, 0, 1)) if len(others) == 1 else others
    k = min(k, len(others) - 1)
    means = []
    for part in torch.split(x, CHUNK):
        cosines = (part @ others.T).topk(k + 1, dim=1).values
        means.append(torch.where(cosines[:, 0] > SAME, cosines[:, 1:].mean(1), cosines[:, :-1].mean(1)))
    return torch.cat(means)


def regress(x: Tensor, targets: Tensor, first: Tensor, start: Tensor, tau: float) -> Tensor:
    """Vectors (n, P), targets (n, C), V at first and at the start (C, P) → V (C, P) after L-BFGS on

    mean_i  - sum_c t_ic log softmax(V x_i / tau)_c  +  pull || V - start ||²
    """
    V = first.clone()
    solver = torch.optim.LBFGS([V], max_iter=STEPS, line_search_fn="strong_wolfe")

    def objective() -> float:
        log_p = (x @ V.T / tau).log_softmax(1)
        V.grad = (log_p.exp() - targets).T @ x / (tau * len(x)) + 2 * PULL * (V - start)
        return float(PULL * (V - start).square().sum() - (targets * log_p).sum() / len(x))

    solver.step(objective)  # type: ignore[no-untyped-call]
    return V


def unevenness(x: Tensor, centres: Tensor) -> float:
    """The standard deviation of the sizes of clusters, of their mean: vectors (n, P), centres (k, P)."""
    sizes = (x @ centres.T).argmax(1).bincount(minlength=len(centres)).double()
    return float(sizes.std(correction=0) / sizes.mean())


def balance(logits: Tensor, groups: Tensor, shares: Tensor) -> Tensor:
    """Logits (n, k), groups (k,) → offsets (k,) with which the softmax gives them their shares (G,)."""
    weights = (logits - logits.amax(1, keepdim=True)).double().exp()
    wanted, scale = len(logits) * shares.double(), weights.new_ones(len(shares))
    for _ in range(SCALINGS):
        sums = weights.T @ (weights @ scale[groups]).reciprocal()
        scale = wanted / torch.zeros_like(scale).index_add_(0, groups, sums)
    offsets = scale.log()[groups]
    return (offsets - offsets.mean()).to(logits)


def _at_most(labels: Tensor, number: int, random: torch.Generator) -> Tensor:
    """Rows (m,) of at most `number` samples of each class, at random."""
    order = torch.randperm(len(labels), generator=random, device=random.device)
    grouped = order[labels[order].argsort(stable=True)]
    first = torch.searchsorted(labels[grouped].contiguous(), labels[grouped].contiguous())
    return grouped[torch.arange(len(labels), device=labels.device) - first < number]
