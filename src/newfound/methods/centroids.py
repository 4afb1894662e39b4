"""Centroids: clusters in the metric that the known classes teach (ours), for embeddings.

    x = unit(W P (z - mean)),  W = (S + lambda mean-eigenvalue(S) I)^(-1/2),  S: covariance within classes
    x' = unit(x + sum of the k nearest x of the pile),  centres: k-means of x'

Nothing is trained. Whether and how much to whiten, and whether to average neighbours, is decided by hiding
known classes: the settings that find them best are used for the novel ones. Where novel classes are said to
be of equal size, Sinkhorn's balance is tried too; on a pile with a long tail it costs far more than it gains
on an even one. At test time known and novel classes compete by their cosines with x; among novel ones alone
x' decides.

Shapes: n unlabelled samples, D features, P principal components, C = C_l + C_u classes.
"""

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

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

log = logging.getLogger(__name__)
SHRINKAGES = (math.inf, 10.0, 3.0, 1.0, 0.3)
"""Values of lambda, the most cautious first; infinity: no whitening."""
FEWEST = 4
"""Known classes, of which some can be hidden."""
ENOUGH = 100
"""Images of a hidden class that are clustered, at most."""
ITERATIONS, ROUNDS, SCALINGS = 100, 10, 50
"""Of k-means; of balanced assignments; of Sinkhorn in each."""


@dataclass(frozen=True)
class Choice:
    """How to cluster."""

    shrinkage: float
    averaged: bool
    balanced: bool

    def __str__(self) -> str:
        parts = [f"whitened (lambda {self.shrinkage:g})" if self.shrinkage < math.inf else "not whitened"]
        parts += ["neighbours averaged"] * self.averaged + ["balanced"] * self.balanced
        return ", ".join(parts)


@dataclass(frozen=True)
class Found:
    """Centres (k, P) of unit length and offsets (k,) that balance them, added to the logits."""

    centres: Tensor
    offsets: Tensor


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
    views = Views()
    schedules = {"pretrain": TrainConfig(), "discover": TrainConfig(epochs=0)}

    @dataclass(frozen=True)
    class Config:
        components: Positive = setting(256, "principal components, at most")
        neighbours: Count = setting(10, "neighbours that a vector may be averaged with")
        restarts: Positive = setting(40, "runs of k-means; the one with the lowest inertia is kept")
        trials: Count = setting(5, "times that known classes are hidden to choose the settings; 0: no choice")
        balanced: bool = setting(False, "whether the novel classes are of about equal size")
        tau: PositiveFloat = setting(0.1, "softmax temperature, in Sinkhorn's balance too")

    mean: Tensor
    projection: Tensor
    pile: Tensor
    share: Tensor
    centres: Tensor
    offsets: Tensor

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.requires_grad_(False)
        P = min(config.components, encoder.dim)
        self.register_buffer("mean", torch.zeros(encoder.dim))
        self.register_buffer("projection", torch.eye(encoder.dim, P))
        self.register_buffer("pile", torch.zeros(task.num_unlabelled, P))
        self.register_buffer("share", torch.zeros(()))
        self.register_buffer("centres", torch.zeros(task.num_classes, P))
        self.register_buffer("offsets", torch.zeros(task.num_novel))

    def begin(self, bank: Bank) -> None:
        known, novel = (F.normalize(each(self.encoder), dim=-1) for each in (bank.labelled, bank.unlabelled))
        random = torch.Generator(known.device).manual_seed(int(torch.randint(2**31, ()).item()))
        both = torch.cat([known, novel])
        self.mean.copy_(both.mean(0))
        basis = principal_components(both - self.mean, self.projection.shape[1])
        known, novel = (known - self.mean) @ basis, (novel - self.mean) @ basis
        choice = self.choose(known, bank.labels, random)
        log.info("centroids: %s", choice)
        whiten = whitening(known, bank.labels, choice.shrinkage)
        self.projection.copy_(basis @ whiten)
        known, novel = (F.normalize(each @ whiten, dim=-1) for each in (known, novel))
        self.pile.copy_(novel)
        self.share.fill_(float(choice.averaged))
        found = self.cluster(self.averaged(novel), self.task.num_novel, self.config.restarts, random)[
            choice.balanced
        ]
        means = torch.stack([known[bank.labels == c].mean(0) for c in range(self.task.num_known)])
        self.centres.copy_(torch.cat([F.normalize(means, dim=-1), found.centres]))
        self.offsets.copy_(found.offsets)

    def choose(self, points: Tensor, labels: Tensor, random: torch.Generator) -> Choice:
        """The choice that finds hidden known classes best, on average; of equals the most cautious."""
        neighbours = (False, True) if self.config.neighbours else (False,)
        balances = (False, True) if self.config.balanced else (False,)
        choices = [Choice(*each) for each in product(SHRINKAGES, neighbours, balances)]
        scores = dict.fromkeys(choices, 0.0)
        if self.task.num_known < FEWEST:
            return choices[0]
        for hidden in self._hidden_classes(random):
            rows = torch.isin(labels, hidden)
            drawn = _at_most(labels[rows], ENOUGH, random)
            classes = _positions(labels[rows][drawn])
            for shrinkage in SHRINKAGES:
                whiten = whitening(points[~rows], labels[~rows], shrinkage)
                x = F.normalize(points[rows][drawn] @ whiten, dim=-1)
                for averaged in neighbours:
                    seen = average(x, x, self.config.neighbours) if averaged else x
                    found = self.cluster(seen, len(hidden), 5, random)
                    for balanced in balances:
                        each = found[balanced]
                        assigned = (seen @ each.centres.T / self.config.tau + each.offsets).argmax(1)
                        choice = Choice(shrinkage, averaged, balanced)
                        scores[choice] += hungarian_accuracy(assigned, classes)
        return max(choices, key=lambda choice: round(scores[choice] / max(self.config.trials, 1), 3))

    def _hidden_classes(self, random: torch.Generator) -> Iterator[Tensor]:
        """As many known classes as are looked for, half of them at most, drawn anew each time."""
        number = min(max(self.task.num_novel, 2), self.task.num_known // 2)
        for _ in range(self.config.trials):
            order = torch.randperm(self.task.num_known, generator=random, device=random.device)
            yield order[:number]

    def cluster(self, x: Tensor, k: int, restarts: int, random: torch.Generator) -> tuple[Found, ...]:
        """Unit vectors (n, P) → k clusters by k-means and, if wanted, the same after balanced assignments."""
        if not k:
            return (Found(x.new_zeros(0, x.shape[1]), x.new_zeros(0)),) * 2
        start = KMeans(x, k, random, restarts=restarts, iterations=ITERATIONS)(k).centres
        plain = Found(F.normalize(start, dim=-1), x.new_zeros(k))
        if not self.config.balanced:
            return (plain,)
        centres, offsets = plain.centres, plain.offsets
        for _ in range(ROUNDS):
            logits = x @ centres.T / self.config.tau
            offsets = balance(logits)
            centres = F.normalize((logits + offsets).softmax(1).T @ x, dim=-1)
        return plain, Found(centres, balance(x @ centres.T / self.config.tau))

    def averaged(self, x: Tensor) -> Tensor:
        """x' of unit vectors x (B, P)."""
        k = min(self.config.neighbours, len(self.pile))
        return torch.where(self.share > 0, average(x, self.pile, k), x)

    def whitened(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) images or (B, D) vectors → x (B, P)."""
        z = F.normalize(self.encoder(images).float(), dim=-1)
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
        joint = x @ self.centres.T / self.config.tau
        novel = self.averaged(x) @ self.centres[self.task.num_known :].T / self.config.tau + self.offsets
        return joint[None], novel[None]


def principal_components(centred: Tensor, number: int) -> Tensor:
    """Centred points (n, D) → the directions of the largest variance (D, number)."""
    vectors: Tensor = torch.linalg.eigh((centred.T @ centred).double())[1]
    return vectors[:, -number:].flip(1).to(centred)


def whitening(points: Tensor, labels: Tensor, shrinkage: float) -> Tensor:
    """Points (n, P) and their classes (n,) → (S + shrinkage * mean-eigenvalue(S) I)^(-1/2), (P, P).

    S is the covariance within the classes.
    """
    position = _positions(labels)
    counts = position.bincount()
    sums = points.new_zeros(len(counts), points.shape[1]).index_add_(0, position, points)
    rest = points - (sums / counts[:, None])[position]
    within = (rest.T @ rest).double() / max(len(points) - len(counts), 1)
    values: Tensor
    values, vectors = torch.linalg.eigh(within)
    if shrinkage == math.inf or values.mean() <= 0:
        return torch.eye(points.shape[1]).to(points)
    scale = (values.clamp(min=0) + shrinkage * values.mean()).rsqrt()
    root: Tensor = vectors * scale @ vectors.T
    return root.to(points)


def average(x: Tensor, pile: Tensor, k: int) -> Tensor:
    """Unit vectors (B, P) → the unit vectors of their sums with the k nearest in the pile (n, P).

    A member of the pile is its own nearest neighbour, and so counts twice.
    """
    nearest = (x @ pile.T).topk(min(k, len(pile)), dim=1).indices
    return F.normalize(x + pile[nearest].sum(1), dim=-1)


def balance(logits: Tensor) -> Tensor:
    """Logits (n, k) → offsets (k,) with which the softmax gives each cluster n / k samples (Sinkhorn)."""
    n, k = logits.shape
    weights = (logits - logits.amax(1, keepdim=True)).double().exp()
    scale = weights.new_ones(k)
    for _ in range(SCALINGS):
        scale = n / k / (weights.T @ (weights @ scale).reciprocal())
    return scale.log().sub(scale.log().mean()).to(logits)


def _positions(labels: Tensor) -> Tensor:
    """Classes (n,) → their positions among those that occur (n,)."""
    return torch.searchsorted(labels.bincount().nonzero().flatten(), labels)


def _at_most(labels: Tensor, number: int, random: torch.Generator) -> Tensor:
    """Rows (m,) of at most `number` samples of each class, at random."""
    order = torch.randperm(len(labels), generator=random, device=random.device)
    grouped = order[labels[order].argsort(stable=True)]
    first = torch.searchsorted(labels[grouped].contiguous(), labels[grouped].contiguous())
    return grouped[torch.arange(len(labels), device=labels.device) - first < number]
