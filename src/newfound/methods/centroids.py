"""Centroids: clusters in the metric that the known classes teach (ours), for embeddings.

    x = unit(W P (z - mean)),  W = (S + lambda mean-eigenvalue(S) I)^(-1/2),  S: covariance within classes
    x' = unit(x + sum of the k nearest x),  centres: k-means of x', then  mu_c = unit(sum_i q_ic x'_i),
    q_i = softmax(x'_i mu / tau + b),  b such that every class has its share of the images (Sinkhorn)

Nothing is trained. How much to whiten, and whether to average neighbours, is decided by hiding known classes:
the settings that find them best are used for the novel ones. Equal shares gain where classes are of equal
size and cost more where they are not, so they are asked for only if the clusters of the pile are hardly more
uneven than those of equally many images of each hidden class. Otherwise b = 0.

In a pile of novel images alone, the nearest x are those of the pile. In a mixed pile they are those of all
images; labelled ones stay in their classes; the first novel centres are those of the images that are far from
every known class; a class's share counts its labelled images too; and at last known classes get a bonus, for
a novel class is more easily found again than a known image that was taken for novel.

Shapes: n unlabelled samples, D features, P principal components, C = C_l + C_u classes.
"""

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
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
from newfound.pseudo.metric import average, positions, principal_components, shrunk_root, spectrum, whitening

log = logging.getLogger(__name__)
SHRINKAGES = (math.inf, 10.0, 3.0, 1.0, 0.3)
"""Values of lambda, the most cautious first; infinity: no whitening."""
FEWEST = 4
"""Known classes, of which some can be hidden."""
ENOUGH = 100
"""Images of a hidden class that are clustered, at most."""
ITERATIONS, ROUNDS, SCALINGS = 100, 20, 50
"""Of k-means; of assignments and centres; of Sinkhorn in each."""
SLACK = 1.2
"""How much more uneven than those of hidden classes the clusters of a pile may be to count as equal."""
FAR = 0.1
"""An image is far from the known classes if it would be among this share of the labelled ones."""
LEAST = 0.1
"""The smallest share of a mixed pile that a known class is given, of that of a mean class."""
BONUS = 0.1
"""Added to the cosines of known classes in a mixed pile."""


@dataclass(frozen=True)
class Choice:
    """How to cluster."""

    shrinkage: float
    averaged: bool

    def __str__(self) -> str:
        whitened = f"whitened (lambda {self.shrinkage:g})" if self.shrinkage < math.inf else "not whitened"
        return f"{whitened}, neighbours averaged" if self.averaged else whitened


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
    mixed = True
    views = Views()
    schedules = {"pretrain": TrainConfig(), "discover": TrainConfig(epochs=0)}

    @dataclass(frozen=True)
    class Config:
        components: Positive = setting(256, "principal components, at most")
        neighbours: Count = setting(10, "neighbours that a vector may be averaged with")
        restarts: Positive = setting(40, "runs of k-means; the one with the lowest inertia is kept")
        trials: Count = setting(5, "times that known classes are hidden to choose the settings; 0: no choice")
        prior: Literal["auto", "equal", "learned"] = setting(
            "auto",
            "sizes of the classes; auto: equal unless the clusters are too uneven for that",
        )
        tau: PositiveFloat = setting(0.1, "softmax temperature")

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
        stored = task.num_unlabelled + (task.num_labelled if task.pile == "mixed" else 0)
        self.register_buffer("mean", torch.zeros(encoder.dim))
        self.register_buffer("projection", torch.eye(encoder.dim, P))
        self.register_buffer("pile", torch.zeros(stored, P))
        self.register_buffer("share", torch.zeros(()))
        self.register_buffer("centres", torch.zeros(task.num_classes, P))
        self.register_buffer("offsets", torch.zeros(task.num_classes))

    def begin(self, bank: Bank) -> None:
        known, pile = (F.normalize(each(self.encoder), dim=-1) for each in (bank.labelled, bank.unlabelled))
        random = torch.Generator(known.device).manual_seed(int(torch.randint(2**31, ()).item()))
        both = torch.cat([known, pile])
        self.mean.copy_(both.mean(0))
        basis = principal_components(both - self.mean, self.projection.shape[1])
        known, pile = (known - self.mean) @ basis, (pile - self.mean) @ basis
        choice, most_uneven = self.choose(known, bank.labels, random)
        whiten = whitening(known, bank.labels, choice.shrinkage)
        self.projection.copy_(basis @ whiten)
        known, pile = (F.normalize(each @ whiten, dim=-1) for each in (known, pile))
        mixed = self.task.pile == "mixed"
        self.pile.copy_(torch.cat([pile, known]) if mixed else pile)
        self.share.fill_(float(choice.averaged))
        sums = torch.zeros_like(self.centres[: self.task.num_known]).index_add_(0, bank.labels, known)
        means, seen = F.normalize(sums, dim=-1), self.averaged(pile)
        if not self.task.num_novel:
            self.centres.copy_(means)
            return
        usual = (known * means[bank.labels]).sum(1)
        apart = seen[far((pile @ means.T).amax(1), usual, self.task.num_novel)] if mixed else seen
        found = self.cluster(apart, self.task.num_novel, self.config.restarts, random)
        even = mixed or unevenness(seen, found) <= SLACK * most_uneven
        equal = even if self.config.prior == "auto" else self.config.prior == "equal"
        log.info("centroids: %s, classes of %s sizes", choice, "equal" if equal else "their own")
        if mixed:
            sums = torch.zeros_like(sums).index_add_(0, bank.labels, self.averaged(known))
            counts = torch.cat(
                [bank.labels.bincount(minlength=self.task.num_known), found.new_zeros(len(found))]
            )
            mean_size = len(both) / self.task.num_classes
            sizes = (mean_size - counts).clamp(min=LEAST * len(pile) / self.task.num_classes)
            fixed, start = F.pad(sums, (0, 0, 0, len(found))), torch.cat([means, found])
        else:
            fixed, start, sizes = torch.zeros_like(found), found, found.new_ones(len(found))
        centres, offsets = settle(seen, start, sizes if equal else None, fixed, self.config.tau)
        first = self.task.num_classes - len(centres)
        self.centres.copy_(torch.cat([means[:first], centres]))
        self.offsets[first:] = offsets
        if mixed:
            self.offsets[: self.task.num_known] += BONUS / self.config.tau

    def choose(self, points: Tensor, labels: Tensor, random: torch.Generator) -> tuple[Choice, float]:
        """The choice that finds hidden known classes best, on average, and how uneven their clusters may be.

        Of equals the most cautious.
        """
        choices = [
            Choice(*each)
            for each in product(SHRINKAGES, (False, True) if self.config.neighbours else (False,))
        ]
        scores, uneven = dict.fromkeys(choices, 0.0), dict.fromkeys(choices, 0.0)
        if self.task.num_known < FEWEST:
            return choices[0], 0.0
        for hidden in self._hidden_classes(random):
            rows = torch.isin(labels, hidden)
            number = min(int(labels[rows].bincount()[hidden].min().clamp(min=10)), ENOUGH)
            drawn = _at_most(labels[rows], number, random)
            classes = positions(labels[rows][drawn])
            within = spectrum(points[~rows], labels[~rows])
            for choice in choices:
                x = F.normalize(points[rows][drawn] @ shrunk_root(within, choice.shrinkage), dim=-1)
                seen = average(x, x, self.config.neighbours) if choice.averaged else x
                centres = self.cluster(seen, len(hidden), 5, random)
                scores[choice] += hungarian_accuracy((seen @ centres.T).argmax(1), classes)
                uneven[choice] = max(uneven[choice], unevenness(seen, centres))
        best = max(choices, key=lambda choice: round(scores[choice] / max(self.config.trials, 1), 3))
        return best, uneven[best]

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
        return torch.where(self.share > 0, average(x, self.pile, self.config.neighbours), x)

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
        seen = self.averaged(x) @ self.centres.T / self.config.tau + self.offsets
        joint = seen if self.task.pile == "mixed" else x @ self.centres.T / self.config.tau
        return joint[None], seen[None, :, self.task.num_known :]


def settle(
    x: Tensor, start: Tensor, sizes: Tensor | None, fixed: Tensor, tau: float
) -> tuple[Tensor, Tensor]:
    """Unit vectors (n, P), centres (k, P) → centres and offsets b (k,) after some rounds.

    `sizes` (k,) are in proportion to the clusters' shares; without them the centres stay. `fixed` (k, P) are
    sums of the vectors that belong to a cluster from the start.
    """
    centres, offsets = start, start.new_zeros(len(start))
    for _ in range(ROUNDS if sizes is not None or fixed.any() else 0):
        logits = x @ centres.T / tau
        if sizes is not None:
            offsets = balance(logits, sizes)
        centres = F.normalize(fixed + (logits + offsets).softmax(1).T @ x, dim=-1)
    return centres, offsets if sizes is None else balance(x @ centres.T / tau, sizes)


def far(nearest: Tensor, usual: Tensor, least: int) -> Tensor:
    """Which samples are far from every known class (n,), at least so many.

    `nearest` (n,) are their cosines with the nearest class, `usual` (n_l,) those of labelled ones with their
    own.
    """
    return nearest <= torch.maximum(usual.quantile(FAR), nearest.kthvalue(least).values)


def unevenness(x: Tensor, centres: Tensor) -> float:
    """The standard deviation of the sizes of clusters, of their mean: vectors (n, P), centres (k, P)."""
    sizes = (x @ centres.T).argmax(1).bincount(minlength=len(centres)).double()
    return float(sizes.std(correction=0) / sizes.mean())


def balance(logits: Tensor, sizes: Tensor) -> Tensor:
    """Logits (n, k) → offsets (k,) with which the softmax gives clusters shares in proportion to `sizes`."""
    weights = (logits - logits.amax(1, keepdim=True)).double().exp()
    wanted, scale = sizes.double() * (len(logits) / sizes.sum()), weights.new_ones(logits.shape[1])
    for _ in range(SCALINGS):
        scale = wanted / (weights.T @ (weights @ scale).reciprocal())
    return scale.log().sub(scale.log().mean()).to(logits)


def _at_most(labels: Tensor, number: int, random: torch.Generator) -> Tensor:
    """Rows (m,) of at most `number` samples of each class, at random."""
    order = torch.randperm(len(labels), generator=random, device=random.device)
    grouped = order[labels[order].argsort(stable=True)]
    first = torch.searchsorted(labels[grouped].contiguous(), labels[grouped].contiguous())
    return grouped[torch.arange(len(labels), device=labels.device) - first < number]
