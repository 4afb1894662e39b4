"""Centroids: the metric of the known classes, neighbours, balance, and the choice between them."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.records import Task
from newfound.core.source import PileKind
from newfound.methods.centroids import (
    BONUS,
    ROUNDS,
    Centroids,
    Choice,
    _at_most,
    balance,
    far,
    settle,
    unevenness,
)
from newfound.metrics.clustering import hungarian_accuracy
from newfound.nn.encoders.mlp import Identity

D, KNOWN, NOVEL, EACH = 12, 8, 4, 40


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Blobs:
    """A bank of classes that differ in the first half of their features; the others vary far more."""

    def __init__(self) -> None:
        means = torch.zeros(KNOWN + NOVEL, D)
        means[:, : D // 2] = 2 * torch.randn(KNOWN + NOVEL, D // 2, generator=random())
        spread = torch.cat([torch.full((D // 2,), 0.5), torch.full((D // 2,), 4.0)])
        classes = torch.arange(KNOWN + NOVEL).repeat_interleave(EACH)
        points = means[classes] + spread * torch.randn(len(classes), D, generator=random(1))
        is_known = classes < KNOWN
        self.labels, self.known = classes[is_known], points[is_known]
        self.truth, self.novel = classes[~is_known] - KNOWN, points[~is_known]

    def labelled(self, function: Callable[[Tensor], Tensor], rows: Tensor | None = None) -> Tensor:
        return function(self.known)

    def unlabelled(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        return function(self.novel)


def fitted(
    seed: int = 0, bank: Blobs | None = None, pile: PileKind = "novel", **settings: float | str
) -> Centroids:
    torch.manual_seed(seed)
    bank = bank or Blobs()
    task = Task(KNOWN, NOVEL, len(bank.novel), pile, len(bank.known))
    method = Centroids(Identity(str(D)), task, Centroids.Config(**settings))  # type: ignore[arg-type]
    method.begin(bank)
    return method.eval()


def test_balance_gives_each_cluster_its_share() -> None:
    logits = torch.randn(90, 3, generator=random()) + torch.tensor([3.0, 0.0, -1.0])
    shares = (logits + balance(logits, torch.tensor([1.0, 2.0, 6.0]))).softmax(1)
    torch.testing.assert_close(shares.sum(0), torch.tensor([10.0, 20.0, 60.0]), rtol=1e-3, atol=1e-3)


def test_settled_centres_are_means_weighted_by_the_assignments() -> None:
    x, start = (F.normalize(torch.randn(n, 4, generator=random(n)), dim=-1) for n in (30, 3))
    fixed, sizes = torch.randn(3, 4, generator=random(5)), torch.tensor([1.0, 1.0, 3.0])
    centres, offsets = settle(x, start, sizes, fixed, 0.1)
    expected = start
    for _ in range(ROUNDS):
        logits = x @ expected.T / 0.1
        q = (logits + balance(logits, sizes)).softmax(1)
        sums = [fixed[c] + sum((q[i, c] * x[i] for i in range(30)), torch.zeros(4)) for c in range(3)]
        expected = torch.stack([each / each.norm() for each in sums])
    torch.testing.assert_close(centres, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(offsets, balance(x @ centres.T / 0.1, sizes))


def test_samples_are_far_that_are_farther_than_most_labelled_ones_are() -> None:
    usual, nearest = torch.linspace(0, 1, 11), torch.tensor([0.05, 0.1, 0.11, 0.9])
    assert far(nearest, usual, 1).tolist() == [True, True, False, False]
    assert far(nearest, usual, 3).tolist() == [True, True, True, False]  # as many as there are classes


def test_a_choice_is_told_in_words() -> None:
    assert str(Choice(math.inf, False)) == "not whitened"
    assert str(Choice(0.3, True)) == "whitened (lambda 0.3), neighbours averaged"


def test_few_components_are_enough() -> None:
    bank, found = Blobs(), fitted(components=10)
    assert found.projection.shape == (D, 10)
    assert hungarian_accuracy(found.both_scores(bank.novel)[1][0].argmax(1), bank.truth) > 0.6


def test_unevenness_is_the_relative_spread_of_the_sizes() -> None:
    x = torch.eye(2)[[0, 0, 0, 1]]
    assert unevenness(x, torch.eye(2)) == pytest.approx(np.std([3, 1]) / 2)


def test_at_most_some_of_each_class_are_drawn() -> None:
    labels = torch.tensor([4, 2, 4, 2, 4, 7])
    rows = _at_most(labels, 2, random())
    assert labels[rows].tolist() == [2, 2, 4, 4, 7]
    assert len(set(rows.tolist())) == 5


def test_the_known_classes_teach_which_features_matter() -> None:
    bank, found = Blobs(), fitted()
    _, novel = found.both_scores(bank.novel)
    assert hungarian_accuracy(novel[0].argmax(1), bank.truth) > 0.9
    plain = fitted(trials=0, neighbours=0)  # no choice: neither whitened nor balanced
    assert not plain.offsets.any()
    _, without = plain.both_scores(bank.novel)
    assert hungarian_accuracy(without[0].argmax(1), bank.truth) < 0.8


def test_known_classes_are_recognised_too() -> None:
    bank, found = Blobs(), fitted()
    joint = found.scores(bank.known)[0]
    assert (joint.argmax(1) == bank.labels).float().mean() > 0.8


def test_scores_among_all_classes_are_cosines() -> None:
    bank, found = Blobs(), fitted()
    x = found.whitened(bank.novel)
    torch.testing.assert_close(x.norm(dim=1), torch.ones(len(x)))
    torch.testing.assert_close(found.scores(bank.novel)[0], x @ found.centres.T / found.config.tau)


def test_any_known_class_may_be_hidden() -> None:
    hidden = list(fitted(trials=30)._hidden_classes(random()))
    assert {len(each) for each in hidden} == {NOVEL}
    assert set(torch.cat(hidden).tolist()) == set(range(KNOWN))


def test_hidden_classes_choose_what_finds_them() -> None:
    bank = Blobs()
    choice, _ = fitted().choose(bank.known, bank.labels, random())
    assert choice.shrinkage <= 1  # the features that vary most say nothing of the classes
    even = bank.known[:, : D // 2]
    spherical = Centroids(Identity(str(D // 2)), Task(KNOWN, NOVEL, 10), Centroids.Config(neighbours=0))
    choice, _ = spherical.choose(even, bank.labels, random())
    assert choice.shrinkage == math.inf  # of equals the most cautious


def test_the_seed_decides_everything() -> None:
    first, again = fitted(3).state_dict(), fitted(3).state_dict()
    assert all(torch.equal(value, again[key]) for key, value in first.items())


def test_with_too_few_known_classes_nothing_is_hidden() -> None:
    method = Centroids(Identity("4"), Task(3, 2, 10), Centroids.Config())
    choice, uneven = method.choose(torch.randn(9, 4), torch.arange(9) % 3, random())
    assert (choice.shrinkage, choice.averaged, uneven) == (math.inf, False, 0.0)


def test_equal_classes_are_told_from_a_long_tail() -> None:
    equal = fitted()
    assert equal.offsets[KNOWN:].any()
    bank = Blobs()
    kept = torch.cat([(bank.truth == c).nonzero().flatten()[: EACH // (1 + 2 * c)] for c in range(NOVEL)])
    bank.novel, bank.truth = bank.novel[kept], bank.truth[kept]
    tail = fitted(bank=bank)
    assert not tail.offsets.any()
    forced = fitted(bank=bank, prior="equal")
    seen = forced.both_scores(bank.novel)[1][0].softmax(1)
    torch.testing.assert_close(seen.mean(0), torch.full((NOVEL,), 1 / NOVEL), rtol=0.01, atol=0.01)


def test_known_images_of_a_mixed_pile_are_recognised() -> None:
    bank = Blobs()
    hidden = torch.arange(len(bank.known)) % 4 == 0
    truth = torch.cat([bank.labels[hidden], bank.truth + KNOWN])
    bank.novel = torch.cat([bank.known[hidden], bank.novel])
    bank.known, bank.labels = bank.known[~hidden], bank.labels[~hidden]
    method = fitted(bank=bank, pile="mixed")
    scores = method.scores(bank.novel)[0]
    seen = method.averaged(method.whitened(bank.novel)) @ method.centres.T / method.config.tau
    torch.testing.assert_close(scores, seen + method.offsets)
    balanced = scores - F.pad(torch.full((KNOWN,), BONUS / method.config.tau), (0, NOVEL))
    wanted = (len(bank.known) + len(bank.novel)) / (KNOWN + NOVEL)
    torch.testing.assert_close(
        balanced.softmax(1).sum(0)[KNOWN:], torch.full((NOVEL,), wanted), rtol=0.02, atol=0.5
    )
    found = scores.argmax(1)
    is_known = truth < KNOWN
    assert (found[is_known] == truth[is_known]).float().mean() > 0.8
    assert (found[~is_known] >= KNOWN).float().mean() > 0.8
    assert hungarian_accuracy(found[~is_known], truth[~is_known]) > 0.8
