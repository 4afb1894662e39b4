"""Centroids: clusters in the metric that the known classes teach (ours), for embeddings.

    x = unit(W P (z - mean)),  W = (S + lambda mean-eigenvalue(S) I)^(-1/2),  S: covariance within classes
    x' = unit(x + sum of the k nearest x),  centres: k-means of x', then  mu_c = unit(sum_i q_ic x'_i),
    q_i = softmax(x'_i mu / tau + b),  b such that every class has its share of the images (Sinkhorn)

No network is trained. How much to whiten is decided by hiding known classes: the lambda that finds them best
is used for the novel ones. Equal shares gain where classes are of equal size and cost more where they are
not, so they are asked for only if the clusters of the pile are hardly more uneven than those of hidden
classes, of which equally many images are taken. Otherwise b = 0.

A mixed pile is divided first, by how much more like known classes than like novel ones an image is:

    s(x) = (<x, labelled> + <x, means> - <x, pile> - <x, mu>) / 2

<x, .> is the mean cosine with the nearest images, a quarter as many as a known class has, and the cosine with
the nearest of the `means` of known classes and of the `mu` of novel ones; before there is a mu the pile
counts twice. No image counts as its own neighbour, so the known images of a pile score as the labelled ones
do, and these tell where to divide: where the pile lags most behind them. If hardly any of the pile scores as
half of the labelled do, the pile is one of novel classes. What is not known is clustered as such a pile is,
and with its mu the pile is divided again. Among known classes a softmax regression decides, which starts at
their means and is pulled back to them.

Shapes: n unlabelled samples, D features, P principal components, C = C_l + C_u classes.
"""

import logging
import math
from collections.abc import Iterator, Sequence
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
ITERATIONS, ROUNDS, SCALINGS = 100, 20, 50
"""Of k-means; of assignments and centres; of Sinkhorn in each."""
SLACK = 1.8
"""How much more uneven than those of hidden classes the clusters of a pile may be to count as equal."""
FEW = 0.05
"""The share of known images that a pile must seem to have, to hold any."""
NEAREST = 5, 50
"""The fewest and the most neighbours that likeness looks at."""
PULL, STEPS = 0.01, 30
"""How strongly a softmax regression is pulled back to where it started; steps of L-BFGS."""
SAME = 0.9999
"""Vectors with at least this cosine are of the same image."""


@register(
    "centroids",
    ours={
        "digits": DIGITS_PRETRAINING,
        "own": {"pretrain.epochs": 100, "pretrain.batch_size": 64, "pretrain.lr": 0.05},
        "vectors": {"encoder": "identity", "pretrain.epochs": 0},
    },
)
class Centroids(Method):
    """Centres of the known classes and of the clusters, in a whitened space."""

    joint = True
    made_for = "mixed"
    mixed = True
    views = Views()
    schedules = {"pretrain": TrainConfig(), "discover": TrainConfig(epochs=0)}

    @dataclass(frozen=True)
    class Config:
        components: Positive = setting(512, "principal components, at most; no more than half of the images")
        neighbours: Count = setting(10, "neighbours that a vector is averaged with")
        restarts: Positive = setting(40, "runs of k-means; the one with the lowest inertia is kept")
        trials: Count = setting(
            10, "times that known classes are hidden to choose how much to whiten; 0: not at all"
        )
        prior: Literal["auto", "equal", "learned"] = setting(
            "auto",
            "sizes of the classes; auto: equal unless the clusters are too uneven for that",
        )
        tau: PositiveFloat = setting(0.1, "softmax temperature")

    mean: Tensor
    projection: Tensor
    pile: Tensor
    labelled: Tensor
    limit: Tensor
    weights: Tensor
    centres: Tensor
    offsets: Tensor

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.requires_grad_(False)
        P = min(config.components, encoder.dim, max((task.num_labelled + task.num_unlabelled) // 2, 1))
        self.register_buffer("mean", torch.zeros(encoder.dim))
        self.register_buffer("projection", torch.eye(encoder.dim, P))
        self.register_buffer("pile", torch.zeros(task.num_unlabelled, P))
        mixed = task.pile == "mixed"
        self.register_buffer("labelled", torch.zeros(task.num_labelled if mixed else 0, P))
        self.register_buffer("weights", torch.zeros(task.num_known if mixed else 0, P))
        self.register_buffer("limit", torch.zeros(()))
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
        self.pile.copy_(pile)
        num_known, k = self.task.num_known, self.task.num_novel
        sums = torch.zeros_like(self.centres[:num_known]).index_add_(0, bank.labels, known)
        self.centres[:num_known] = F.normalize(sums, dim=-1)
        if not k:
            return
        mixed, novel = self.task.pile == "mixed", torch.ones_like(pile[:, 0], dtype=torch.bool)
        if mixed:
            self.labelled.copy_(known)
            others = F.normalize(sums[bank.labels] - known, dim=-1)  # of the same class
            own = (known * others).sum(1, keepdim=True)
            means = (known @ self.centres[:num_known].T).scatter(1, bank.labels[:, None], own).amax(1)
            near = [self.like_known(known, means), self.like_known(pile)]
            self.weights.copy_(regress(known, bank.labels, self.centres[:num_known], self.config.tau))
            novel = self.divide((known, pile), near)
            self.pile[~novel] = 0  # nobody's neighbours
        seen = self.averaged(pile[novel])
        centres = self.cluster(seen, k, self.config.restarts, random)
        even = unevenness(seen, centres) <= SLACK * usual
        equal = even if self.config.prior == "auto" else self.config.prior == "equal"
        log.info("centroids: lambda %g, classes of %s sizes", shrinkage, "equal" if equal else "their own")
        if equal:
            centres, self.offsets[num_known:] = settle(seen, centres, self.config.tau)
        self.centres[num_known:] = centres
        if mixed:
            novel = self.divide((known, pile), near)
            if equal:
                seen = self.averaged(pile[novel])
                self.centres[num_known:], self.offsets[num_known:] = settle(seen, centres, self.config.tau)

    def divide(self, x: Sequence[Tensor], near: Sequence[Tensor]) -> Tensor:
        """Labelled images and the pile, and how near they are to known classes → which of the pile are novel.

        The limit is stored.
        """
        usual, found = map(self.likeness, x, near)
        self.limit.copy_(dividing(usual, found, self.task.num_novel))
        return found <= self.limit

    def likeness(self, x: Tensor, near: Tensor) -> Tensor:
        """s of unit vectors (B, P) whose first two terms are `near` (B,)."""
        pile, mu = self.near(x, self.pile), self.centres[self.task.num_known :]
        return (near - pile - ((x @ mu.T).amax(1) if mu.any() else pile)) / 2

    def like_known(self, x: Tensor, means: Tensor | None = None) -> Tensor:
        """The first two terms of s (B,); `means` (B,) are the second if they are given."""
        if means is None:
            means = (x @ self.centres[: self.task.num_known].T).amax(1)
        return self.near(x, self.labelled) + means

    def near(self, x: Tensor, others: Tensor) -> Tensor:
        """<x, others> (B,)."""
        fewest, most = NEAREST
        quarter = self.task.num_labelled // (4 * self.task.num_known)
        return nearest(x, others, min(max(quarter, fewest), most))

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

    def cluster(self, x: Tensor, k: int, restarts: int, random: torch.Generator) -> Tensor:
        """Unit vectors (n, P) → unit centres (k, P) of k-means."""
        return F.normalize(KMeans(x, k, random, restarts=restarts, iterations=ITERATIONS)(k).centres, dim=-1)

    def averaged(self, x: Tensor) -> Tensor:
        """x' of unit vectors x (B, P)."""
        return average(x, self.pile, self.config.neighbours)

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
        novel = (self.averaged(x) @ self.centres[num_known:].T / tau + self.offsets[num_known:])[None]
        if self.task.pile == "novel" or not self.task.num_novel:
            return x @ self.centres.T[None] / tau, novel
        # Among known classes and among novel ones as they are; the side that loses is moved.
        known = x @ self.weights.T / tau
        lead = (self.likeness(x, self.like_known(x)) - self.limit) / tau
        excess = known.amax(1) - novel[0].amax(1) - lead
        known = known - torch.where(lead > 0, 0, excess)[:, None]
        return torch.cat([known, novel[0] + torch.where(lead > 0, excess, 0)[:, None]], 1)[None], novel


def settle(x: Tensor, start: Tensor, tau: float) -> tuple[Tensor, Tensor]:
    """Unit vectors (n, P), centres (k, P) → centres and offsets b (k,) after some rounds, of equal shares."""
    centres = start
    for _ in range(ROUNDS):
        logits = x @ centres.T / tau
        centres = F.normalize((logits + balance(logits)).softmax(1).T @ x, dim=-1)
    return centres, balance(x @ centres.T / tau)


def dividing(usual: Tensor, found: Tensor, least: int) -> Tensor:
    """The likeness of labelled images (n_l,) and of the pile (n,) → the one from which on a pile's are known.

    It is above at least so many of the pile, and above all of it if that seems to hold no known images.
    """
    steps = torch.cat([usual, found]).sort().values
    up_to = [torch.searchsorted(each.sort().values, steps, right=True) / len(each) for each in (usual, found)]
    if 2 * (found > usual.median()).float().mean() > FEW:
        step = torch.maximum(steps[(up_to[1] - up_to[0]).argmax()], found.kthvalue(least).values)
    else:
        step = found.amax()
    above = torch.cat([steps[steps > step], steps[-1:] + 1])
    return (step + above[0]) / 2


def nearest(x: Tensor, others: Tensor, k: int) -> Tensor:
    """The mean cosine of unit vectors (B, P) with the k nearest others (n, P), themselves apart: (B,)."""
    others = F.pad(others, (0, 0, 0, 1)) if len(others) == 1 else others
    k = min(k, len(others) - 1)
    means = []
    for part in torch.split(x, CHUNK):
        cosines = (part @ others.T).topk(k + 1, dim=1).values
        means.append(torch.where(cosines[:, 0] > SAME, cosines[:, 1:].mean(1), cosines[:, :-1].mean(1)))
    return torch.cat(means)


def regress(x: Tensor, labels: Tensor, start: Tensor, tau: float) -> Tensor:
    """Vectors (n, P), classes (n,), start (C, P) → W (C, P), the least of

    mean_i  - log softmax(W x_i / tau)_(y_i)  +  pull || W - start ||²
    """
    W, target = start.clone(), F.one_hot(labels, len(start)).to(x)
    solver = torch.optim.LBFGS([W], max_iter=STEPS, line_search_fn="strong_wolfe")

    def objective() -> float:
        log_p = (x @ W.T / tau).log_softmax(1)
        W.grad = (log_p.exp() - target).T @ x / (tau * len(x)) + 2 * PULL * (W - start)
        return float(PULL * (W - start).square().sum() - (target * log_p).sum() / len(x))

    solver.step(objective)  # type: ignore[no-untyped-call]
    return W


def unevenness(x: Tensor, centres: Tensor) -> float:
    """The standard deviation of the sizes of clusters, of their mean: vectors (n, P), centres (k, P)."""
    sizes = (x @ centres.T).argmax(1).bincount(minlength=len(centres)).double()
    return float(sizes.std(correction=0) / sizes.mean())


def balance(logits: Tensor) -> Tensor:
    """Logits (n, k) → offsets (k,) with which the softmax gives all clusters equal shares."""
    weights = (logits - logits.amax(1, keepdim=True)).double().exp()
    wanted, scale = len(logits) / logits.shape[1], weights.new_ones(logits.shape[1])
    for _ in range(SCALINGS):
        scale = wanted / (weights.T @ (weights @ scale).reciprocal())
    return scale.log().sub(scale.log().mean()).to(logits)


def _at_most(labels: Tensor, number: int, random: torch.Generator) -> Tensor:
    """Rows (m,) of at most `number` samples of each class, at random."""
    order = torch.randperm(len(labels), generator=random, device=random.device)
    grouped = order[labels[order].argsort(stable=True)]
    first = torch.searchsorted(labels[grouped].contiguous(), labels[grouped].contiguous())
    return grouped[torch.arange(len(labels), device=labels.device) - first < number]
