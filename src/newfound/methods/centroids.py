"""Centroids: clusters in a metric learned from the known classes (ours), for embeddings.

    x = unit(W P (z - mean)),  W = (S + lambda mean-eigenvalue(S) I)^(-1/2),  S: covariance within classes
    x' = unit(x + sum of the k nearest x),  centres: k-means of x', then  mu_c = unit(sum_i q_ic x'_i),
    q_i = softmax(x'_i mu / tau + b),  b: equal shares of the images for all classes (Sinkhorn), or log shares

No network is trained. The amount of whitening is chosen by hiding known classes: the lambda that finds them
best is used for the novel ones. For tight clusters, which may be near to each other, tau is lowered. Equal
shares help if classes are of equal size, and hurt more if they are not. So they are used only if the vectors
lose hardly more of their cosines with the centres to them than those of hidden classes do, with the same
number of images from each. Otherwise b is the logarithm of the shares of a mixture, fitted by expectation
maximisation.

A mixed pile is divided first, by how much more an image looks like known classes than like novel ones
(`pseudo.likeness`), which also estimates the share pi of its images that are known. The images that look
least known are clustered like a pile of novel classes. These are somewhat more than 1 - pi of the pile, since
leaving out a novel image costs more than including a known one. Once the mu of the clusters are found, the
share 1 - pi of the pile with the lowest <x, labelled> + <x, means> - <x, clustered> - <x, mu> is novel. In a
pile of novel classes, pi = 0.

So far an image is known or not. Now a softmax regression over all classes, which starts at the means and the
mu and is penalised for leaving them, learns from the labels and from its own answers on the pile, a few
times:

    q_i = softmax(V x_i / tau + b),  targets (q_i + mean of q over x_i and the k nearest) / 2

Labelled images can be among the nearest, with their labels as q. b gives the known classes together a share
pi of the pile and the novel ones the rest, in equal shares if these are used. In the end b is shifted so that
a share pi of the images is put into known classes or, if there is a clear gap between known and novel images
near pi, the images on the known side of it. If pi = 0, no more than one image in a hundred is, and none if
the labelled images are clearly apart from the pile.

Shapes: n unlabelled samples, D features, P principal components, C = C_l + C_u classes.
"""

import logging
import math
from dataclasses import dataclass
from statistics import fmean
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
from newfound.pseudo.likeness import (
    CHUNK,
    Likeness,
    average,
    left_out,
    positions,
    principal_components,
    shrunk_root,
    spectrum,
    whitening,
)

log = logging.getLogger(__name__)
SHRINKAGES = (math.inf, 10.0, 3.0, 1.0, 0.3)
"""Candidates for lambda, the most cautious first; infinity means no whitening."""
FEWEST = 4
"""With fewer known classes, none are hidden to choose lambda."""
ENOUGH = 100
"""At most this many images of a hidden class are clustered."""
ITERATIONS = 100
"""Iterations of one run of k-means."""
SWAPPED = 20
"""Rounds of swaps that improve the best run."""
ROUNDS = 20
"""Rounds of assignments and centres for equal shares."""
SCALINGS = 50
"""Sinkhorn iterations in each of these rounds."""
SLACK = 1.5
"""Classes count as equal in size if equal shares cost at most this much more than among hidden classes."""
TIGHT = 0.1
"""Clusters with a smaller mean of 1 - cosine are separated with a tau that is lower in proportion,"""
LOWEST = 0.03
"""but at least this part of it, or exponentials would underflow: copies of an image have a mean of 0."""
FREE = 0.003
"""A cost that hidden classes may have at least, since some happen to have none."""
MORE = 1.25
"""How many images are clustered for each one that is thought to be novel."""
NONE = 1e-4
"""The share given to known classes in a pile that seems to have none."""
ANYWAY = 0.01
"""The share of such a pile that may be put into known classes, so that new known images are recognised."""
USUAL = 0.05
"""The share of labelled images that may look less known than a new image that is recognised."""
UNSURE = 0.05
"""The usual error of the estimated share of known images."""
DEEP = 3.0
"""A valley in the density counts if the density on either side is this many times as high."""
REFINEMENTS = 5
"""How often the regression is fitted, each time to its latest answers."""
STEPS = 8
"""L-BFGS steps in each fit."""
PULL = 15.0
"""Weight of the penalty that keeps the regression near its start, relative to the loss of one image."""
SOME = 5_000
"""With fewer images the penalty is PULL / SOME relative to their mean loss, so that it cannot dominate."""


@register(
    "centroids",
    ours={
        "digits": DIGITS_PRETRAINING,
        "own": {"pretrain.epochs": 100, "pretrain.batch_size": 64, "pretrain.lr": 0.05},
        # The work grows with the square of the number of vectors.
        "vectors": {"encoder": "identity", "pretrain.epochs": 0, "sample": 50_000},
    },
)
class Centroids(Method):
    """Regression on known classes and clusters, in a whitened space."""

    joint = True
    made_for = "mixed"
    mixed = True
    cache_version = 9
    views = Views()
    schedules = {"pretrain": TrainConfig(), "discover": TrainConfig(epochs=0)}

    @dataclass(frozen=True)
    class Config:
        components: Positive = setting(
            512, "maximum number of principal components; never more than half the number of images"
        )
        neighbours: Count = setting(10, "neighbours that a vector is averaged with")
        restarts: Positive = setting(10, "runs of k-means; the one with the lowest inertia is then improved")
        trials: Count = setting(
            10, "how often known classes are hidden to choose the amount of whitening; 0: no whitening"
        )
        prior: Literal["auto", "equal", "learned"] = setting(
            "auto",
            "class sizes; auto: equal if that fits the clusters as well as it fits hidden known classes",
        )
        tau: PositiveFloat = setting(0.1, "softmax temperature")

    mean: Tensor
    projection: Tensor
    centres: Tensor
    offsets: Tensor

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.requires_grad_(False)
        P = min(config.components, encoder.dim, max((task.num_labelled + task.num_unlabelled) // 2, 1))
        self.register_buffer("mean", torch.zeros(encoder.dim))
        self.register_buffer("projection", torch.eye(encoder.dim, P))
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
        log.debug("lambda %g", shrinkage)
        whiten = whitening(known, bank.labels, shrinkage)
        self.projection.copy_(basis @ whiten)
        left = left_out(known, bank.labels, whiten) if shrinkage < math.inf else F.normalize(known, dim=-1)
        known, pile = (F.normalize(each @ whiten, dim=-1) for each in (known, pile))
        num_known = self.task.num_known
        sums = torch.zeros_like(self.centres[:num_known]).index_add_(0, bank.labels, known)
        self.centres[:num_known] = F.normalize(sums, dim=-1)
        if self.task.num_novel:
            self.divide(known, left, bank.labels, pile, usual, random)

    def novel_classes(
        self, seen: Tensor, usual: float, random: torch.Generator
    ) -> tuple[Tensor, Tensor, bool]:
        """Averaged vectors (n, P) → centres (C_u, P) and offsets (C_u,), and whether shares are equal.

        `usual` is what equal shares cost among hidden classes of equal size.
        """
        start = self.cluster(seen, self.task.num_novel, self.config.restarts, random, SWAPPED)
        even = equal_cost(seen, start, self.config.tau) <= SLACK * max(usual, FREE)
        equal = even if self.config.prior == "auto" else self.config.prior == "equal"
        log.debug("classes of %s sizes", "equal" if equal else "their own")
        return *settle(seen, start, self.config.tau, equal), equal

    def divide(
        self, known: Tensor, left: Tensor, labels: Tensor, pile: Tensor, usual: float, random: torch.Generator
    ) -> None:
        """Set the centres and offsets of all classes."""
        num_known, k, tau = self.task.num_known, self.task.num_novel, self.config.tau
        novel, share = torch.ones_like(pile[:, 0], dtype=torch.bool), 0.0
        if self.task.pile == "mixed":
            likeness = Likeness(known, left, labels, pile)
            share, clear = likeness.share()
            novel = likeness.lowest(likeness.s, max((1 if clear else MORE) * (1 - share), k / len(pile)))
        rest = pile[novel]
        seen = average(rest, rest, self.config.neighbours)
        centres, offsets, equal = self.novel_classes(seen, usual, random)
        self.centres[num_known:] = centres
        if share:
            s = likeness.near - likeness.among(novel) - (likeness.x @ centres.T).amax(1)
            novel = likeness.lowest(s, 1 - share)
        q = F.pad((pile @ self.centres[:num_known].T / tau).softmax(1), (0, k))
        seen = average(pile[novel], rest, self.config.neighbours)
        q[novel] = F.pad((seen @ centres.T / tau + offsets).softmax(1), (num_known, 0))
        groups = F.pad(torch.arange(k) + 1 if equal else torch.ones(k, dtype=torch.long), (num_known, 0))
        shares = torch.tensor([share, *([(1 - share) / k] * k if equal else [1 - share])]).clamp(min=NONE)
        self.refine(known, labels, pile, q, groups.to(q.device), shares.to(q))
        margins, labelled = (
            logits[:, :num_known].amax(1) - logits[:, num_known:].amax(1)
            for logits in (self._both(x)[0][0] for x in (pile, left))
        )
        self.offsets[:num_known] -= valley(margins, 1 - share) if share else gap(margins, labelled)
        found = self._both(pile)[0][0].argmax(1) - num_known
        self.number(found[found >= 0])

    def number(self, found: Tensor) -> None:
        """Order the novel classes by size, then by first image; `found` (n,) are the images' classes."""
        num_known, n = self.task.num_known, len(found)
        sizes, rows = found.bincount(minlength=self.task.num_novel), torch.arange(n, device=found.device)
        first = torch.full_like(sizes, n).scatter_reduce(0, found, rows, "amin")
        order = (first - sizes * (n + 1)).argsort(stable=True)
        self.centres[num_known:] = self.centres[num_known:][order]
        self.offsets[num_known:] = self.offsets[num_known:][order]

    def refine(
        self, known: Tensor, labels: Tensor, pile: Tensor, q: Tensor, groups: Tensor, shares: Tensor
    ) -> None:
        """Fit V and b to labels (n_l,) and to the pile's answers, of which q (n, C) are the first.

        The groups (C,) of classes have the shares (G,) of the pile. V and b are stored as centres and
        offsets.
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
        """The lambda that finds hidden known classes best, and what equal shares cost them, on average.

        Ties go to the most cautious. The choice depends only on the data, so runs with other seeds agree on
        it.
        """
        if self.task.num_known < FEWEST or not self.config.trials:
            return SHRINKAGES[0], 0.0
        random, k = torch.Generator(points.device).manual_seed(0), self.config.neighbours
        trials = [self._hide(points, labels, random) for _ in range(self.config.trials)]

        def found(rows: Tensor, within: tuple[Tensor, Tensor], shrinkage: float) -> tuple[Tensor, Tensor]:
            x = F.normalize(points[rows] @ shrunk_root(within, shrinkage), dim=-1)
            seen = average(x, x, k)
            return seen, self.cluster(seen, int(positions(labels[rows]).max()) + 1, 5, random)

        scores = dict.fromkeys(SHRINKAGES, 0.0)
        for rows, within in trials:
            for shrinkage in SHRINKAGES:
                seen, centres = found(rows, within, shrinkage)
                scores[shrinkage] += hungarian_accuracy((seen @ centres.T).argmax(1), positions(labels[rows]))
        best = max(SHRINKAGES, key=lambda each: round(scores[each] / len(trials), 3))
        return best, fmean(equal_cost(*found(*trial, best), self.config.tau) for trial in trials)

    def _hide(
        self, points: Tensor, labels: Tensor, random: torch.Generator
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Rows of hidden classes, the same number of each, and the spectrum of the other classes.

        As many random known classes are hidden as there are novel ones, but at most half of them.
        """
        order = torch.randperm(self.task.num_known, generator=random, device=random.device)
        hidden = order[: min(max(self.task.num_novel, 2), self.task.num_known // 2)]
        chosen = torch.isin(labels, hidden)
        number = min(int(labels.bincount()[hidden].min().clamp(min=10)), ENOUGH)
        rows = chosen.nonzero().flatten()
        return rows[_at_most(labels[rows], number, random)], spectrum(points[~chosen], labels[~chosen])

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
        with torch.autocast(x.device.type, enabled=False):  # cosines may differ very little
            return self._both(x)

    def _both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Scores among all classes (1, B, C) and among novel ones (1, B, C_u) of x (B, P)."""
        joint = x @ self.centres.T[None] / self.config.tau + self.offsets
        return joint, joint[..., self.task.num_known :]


def settle(x: Tensor, start: Tensor, tau: float, equal: bool) -> tuple[Tensor, Tensor]:
    """Unit vectors (n, P), centres (k, P) → centres and offsets b (k,) of clusters with equal or own shares.

    Their own shares are those of a mixture fitted by expectation maximisation, with their logarithms as b.
    For tight clusters a lower tau is used within, and b is scaled to fit the given one.
    """
    lower = min(max(float(1 - (x @ start.T).amax(1).mean()) / TIGHT, LOWEST), 1.0)
    tau, centres, each = lower * tau, start, torch.arange(len(start), device=x.device)
    shares = torch.full((len(start),), 1 / len(start), device=x.device)
    for _ in range(ROUNDS):
        logits = x @ centres.T / tau
        q = (logits + (balance(logits, each, shares) if equal else shares.log())).softmax(1)
        centres = F.normalize(q.T @ x, dim=-1)
        if not equal:
            shares = q.mean(0)
    offsets = balance(x @ centres.T / tau, each, shares) if equal else shares.log()
    return centres, lower * offsets


def equal_cost(x: Tensor, start: Tensor, tau: float) -> float:
    """How much less the cosines of vectors (n, P) with their centres are if clusters have equal shares."""
    centres, offsets = settle(x, start, tau, equal=True)
    cosines = x @ centres.T
    assigned = (cosines / tau + offsets).argmax(1, keepdim=True)
    return float((x @ start.T).amax(1).mean() - cosines.gather(1, assigned).mean())


def regress(x: Tensor, targets: Tensor, first: Tensor, start: Tensor, tau: float) -> Tensor:
    """Vectors (n, P), targets (n, C) → V (C, P), found by L-BFGS from `first` (C, P), which minimises

    mean_i  - sum_c t_ic log softmax(V x_i / tau)_c  +  pull || V - start ||²
    """
    V, pull = first.clone(), PULL / max(len(x), SOME)
    solver = torch.optim.LBFGS([V], max_iter=STEPS, line_search_fn="strong_wolfe")

    def objective() -> float:
        log_p = (x @ V.T / tau).log_softmax(1)
        V.grad = (log_p.exp() - targets).T @ x / (tau * len(x)) + 2 * pull * (V - start)
        return float(pull * (V - start).square().sum() - (targets * log_p).sum() / len(x))

    solver.step(objective)  # type: ignore[no-untyped-call]
    return V


def valley(values: Tensor, part: float) -> Tensor:
    """The quantile `part` of the values (n,), or a deep valley of their density near it.

    The choice of the valley weighs how low the density is against how far it is from the quantile.
    """
    ordered, n = values.sort().values, len(values)
    half = max(n // 100, 1)
    widths = ordered[2 * half :] - ordered[: -2 * half]
    if not len(widths):
        return values.quantile(part)
    off = (torch.arange(half, n - half, device=values.device) / n - part) / UNSURE
    best = int((widths.log() - off.square() / 2).argmax())
    deep = widths[best] >= DEEP * torch.maximum(widths[: best + 1].min(), widths[best:].min())
    return ordered[best + half - 1 : best + half + 1].mean() if deep else values.quantile(part)


def gap(pile: Tensor, labelled: Tensor) -> Tensor:
    """A boundary above most margins of a novel pile (n,), halfway to most labelled ones (N,) above these."""
    low = pile.quantile(1 - ANYWAY)
    return (low + labelled.quantile(USUAL).clamp(min=low)) / 2


def balance(logits: Tensor, groups: Tensor, shares: Tensor) -> Tensor:
    """Logits (n, k), groups (k,) → offsets (k,) with which the softmax gives the groups their shares (G,)."""
    weights = (logits - logits.amax(1, keepdim=True)).double().exp()
    wanted, scale = len(logits) * shares.double(), weights.new_ones(len(shares))
    for _ in range(SCALINGS):
        sums = weights.T @ (weights @ scale[groups]).reciprocal()
        scale = wanted / torch.zeros_like(scale).index_add_(0, groups, sums)
    offsets = scale.log()[groups]
    return (offsets - offsets.mean()).to(logits)


def _at_most(labels: Tensor, number: int, random: torch.Generator) -> Tensor:
    """Random rows (m,), at most `number` of each class."""
    order = torch.randperm(len(labels), generator=random, device=random.device)
    grouped = order[labels[order].argsort(stable=True)]
    first = torch.searchsorted(labels[grouped].contiguous(), labels[grouped].contiguous())
    return grouped[torch.arange(len(labels), device=labels.device) - first < number]
