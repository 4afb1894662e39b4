"""Centroids: the metric of the known classes, neighbours, balance, and the choice between them."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.records import Task
from newfound.core.source import PileKind
from newfound.methods.centroids import (
    PULL,
    REFINEMENTS,
    ROUNDS,
    Centroids,
    _at_most,
    balance,
    equal_cost,
    gap,
    regress,
    settle,
    valley,
)
from newfound.metrics.clustering import hungarian_accuracy
from newfound.nn.encoders.mlp import Identity
from newfound.pseudo.likeness import spectrum

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


@pytest.mark.parametrize("pile", ["novel", "mixed"])
def test_novel_classes_are_numbered_by_size_then_by_their_first_image(pile: PileKind) -> None:
    bank = Blobs()
    method = fitted(1, bank, pile, prior="learned")
    joint, novel = (scores[0].argmax(1) for scores in method.both_scores(bank.novel))
    classes = joint[joint >= KNOWN] - KNOWN if pile == "mixed" else novel
    sizes = classes.bincount(minlength=NOVEL).tolist()
    assert sizes == sorted(sizes, reverse=True)
    method.centres[KNOWN:, 0] = method.offsets[KNOWN:] = torch.arange(4.0)
    method.number(torch.tensor([3, 1, 1, 3, 0]))
    assert method.offsets[KNOWN:].tolist() == method.centres[KNOWN:, 0].tolist() == [3, 1, 0, 2]


def test_a_deep_valley_decides_where_known_images_begin() -> None:
    low, high = torch.randn(600, generator=random()) - 4, torch.randn(400, generator=random(1)) + 4
    both = torch.cat([low, high])
    for part in (0.55, 0.6, 0.65):  # the share is misjudged a little
        assert float((low < valley(both, part)).float().mean()) > 0.99
        assert float((high > valley(both, part)).float().mean()) > 0.99
    assert float(valley(both, 0.2)) == float(both.quantile(0.2))  # by far
    even = torch.linspace(0, 1, 1000)
    assert float(valley(even, 0.3)) == pytest.approx(0.3)
    assert float(valley(even[:2], 0.5)) == pytest.approx(float(even[:2].quantile(0.5)))


def test_balance_gives_each_group_its_share() -> None:
    logits = torch.randn(90, 3, generator=random()) + torch.tensor([3.0, 0.0, -1.0])
    for groups, shares in (([0, 1, 2], [1 / 3] * 3), ([0, 1, 0], [0.2, 0.8]), ([0, 1, 2], [0.5, 0.3, 0.2])):
        offsets = balance(logits, torch.tensor(groups), torch.tensor(shares))
        found = (logits + offsets).softmax(1).sum(0)
        sums = torch.zeros(len(shares)).index_add(0, torch.tensor(groups), found)
        torch.testing.assert_close(sums, 90 * torch.tensor(shares), rtol=1e-3, atol=1e-3)
        assert len(set(offsets.tolist())) == len(shares)  # one for each group
        shifted = balance(logits + 800, torch.tensor(groups), torch.tensor(shares))  # exp would overflow
        torch.testing.assert_close(shifted, offsets, rtol=1e-3, atol=1e-3)


def test_known_classes_that_are_large_in_a_pile_are_recognised() -> None:
    """Four times as many images of three of them are in the pile as are labelled."""
    bank = Blobs()
    truth = torch.arange(3).repeat_interleave(4 * EACH)
    means = torch.stack([bank.known[bank.labels == c].mean(0) for c in range(3)])
    spread = torch.cat([torch.full((D // 2,), 0.5), torch.full((D // 2,), 4.0)])
    pile = means[truth] + spread * torch.randn(len(truth), D, generator=random(2))
    bank.novel = torch.cat([pile, bank.novel])

    found = fitted(bank=bank, pile="mixed").both_scores(pile)[0][0].argmax(1)
    assert float((found == truth).float().mean()) > 0.8


@pytest.mark.parametrize("equal", [True, False])
def test_settled_centres_are_means_weighted_by_the_assignments(equal: bool) -> None:
    x, start = (F.normalize(torch.randn(n, 4, generator=random(n)), dim=-1) for n in (30, 3))
    centres, offsets = settle(x, start, 0.1, equal)
    expected, shares, groups = start, torch.full((3,), 1 / 3), torch.arange(3)
    for _ in range(ROUNDS):
        logits = x @ expected.T / 0.1
        q = (logits + (balance(logits, groups, shares) if equal else shares.log())).softmax(1)
        sums = [sum((q[i, c] * x[i] for i in range(30)), torch.zeros(4)) for c in range(3)]
        expected = torch.stack([each / each.norm() for each in sums])
        shares = shares if equal else q.sum(0) / 30
    torch.testing.assert_close(centres, expected, rtol=1e-4, atol=1e-5)
    wanted = balance(x @ centres.T / 0.1, groups, shares) if equal else shares.log()
    torch.testing.assert_close(offsets, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("equal", [True, False])
def test_tight_clusters_are_not_merged_however_near_they_are(equal: bool) -> None:
    sizes = torch.tensor([30, 40, 50, 60])
    near = 1 + 0.2 * torch.randn(4, 8, generator=random(0))
    truth = torch.arange(4).repeat_interleave(sizes)
    x = F.normalize(near[truth] + 0.01 * torch.randn(180, 8, generator=random(1)), dim=-1)
    start = F.normalize(near, dim=-1)
    centres, offsets = settle(x, start, 0.1, equal)
    found = (x @ centres.T / 0.1 + offsets).argmax(1)
    assert torch.equal(found, truth)


@pytest.mark.parametrize("prior", ["equal", "learned", "auto"])
@pytest.mark.parametrize(("copies", "classes"), [(20, NOVEL), (1, NOVEL), (1, 2 * NOVEL)])
def test_a_pile_of_copies_is_sorted(copies: int, classes: int, prior: str) -> None:
    bank = Blobs()
    bank.novel = torch.randn(classes, D, generator=random(3)).repeat_interleave(copies, 0)
    found = fitted(bank=bank, prior=prior).both_scores(bank.novel)[1][0]
    assert found.isfinite().all()
    if classes == NOVEL:
        ids = found.argmax(1).view(NOVEL, copies)
        assert (ids == ids[:, :1]).all()
        assert len({*ids.flatten().tolist()}) == NOVEL


def test_equal_shares_cost_what_the_cosines_with_the_centres_fall_by() -> None:
    x, start = (F.normalize(torch.randn(n, 4, generator=random(n)), dim=-1) for n in (30, 3))
    centres, offsets = settle(x, start, 0.1, equal=True)
    cost = 0.0
    for each in x:
        assigned = int((centres @ each / 0.1 + offsets).argmax())
        cost += float((start @ each).max() - centres[assigned] @ each) / 30
    assert equal_cost(x, start, 0.1) == pytest.approx(cost, abs=1e-5)


@pytest.mark.parametrize("some", [20, 40])
def test_regression_finds_the_least_of_its_objective(some: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newfound.methods.centroids.SOME", some)
    x, start = (F.normalize(torch.randn(n, 4, generator=random(n)), dim=-1) for n in (30, 3))
    targets = torch.randn(30, 3, generator=random()).softmax(1)
    V = start
    for _ in range(10):
        V = regress(x, targets, V, start, 0.1)
    V.requires_grad_()
    loss = F.cross_entropy(x @ V.T / 0.1, targets) + PULL / max(30, some) * (V - start).square().sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert V.grad is not None
    assert V.grad.abs().max() < 1e-3
    assert (V - start).abs().max() > 0.1


def test_answers_are_refined_with_those_of_the_neighbours() -> None:
    method = Centroids(Identity("4"), Task(2, 2, 30, "mixed", 20), Centroids.Config(neighbours=3))
    known, pile, start = (F.normalize(torch.randn(n, 4, generator=random(n)), dim=-1) for n in (20, 30, 4))
    labels, q = torch.arange(20) % 2, torch.randn(30, 4, generator=random()).softmax(1)
    groups, shares = torch.tensor([0, 0, 1, 2]), torch.tensor([0.4, 0.3, 0.3])
    method.centres.copy_(start)
    method.refine(known, labels, pile, q, groups, shares)
    V, x = start, torch.cat([known, pile])
    for _ in range(REFINEMENTS):
        answers = torch.cat([F.one_hot(labels, 4).float(), q])
        targets = answers.clone()
        for i in range(20, 50):
            others = sorted((j for j in range(50) if j != i), key=lambda j: -float(x[i] @ x[j]))[:3]
            targets[i] = (answers[i] + answers[[i, *others]].mean(0)) / 2
        V = regress(x, targets, V, start, 0.1)
        b = balance(pile @ V.T / 0.1, groups, shares)
        q = (pile @ V.T / 0.1 + b).softmax(1)
    torch.testing.assert_close(method.centres, V, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(method.offsets, b, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(q.mean(0)[:2].sum(), torch.tensor(0.4), rtol=1e-2, atol=1e-3)


def test_few_components_are_enough() -> None:
    bank, found = Blobs(), fitted(components=10)
    assert found.projection.shape == (D, 10)
    assert hungarian_accuracy(found.both_scores(bank.novel)[1][0].argmax(1), bank.truth) > 0.6


def test_half_as_many_components_as_images_are_kept() -> None:
    method = Centroids(Identity("40"), Task(2, 2, 30, "mixed", 20), Centroids.Config())
    assert method.centres.shape == (4, 25)


def test_vectors_are_centred_at_the_mean_of_all() -> None:
    bank = Blobs()
    every = F.normalize(torch.cat([bank.known, bank.novel]), dim=-1)
    torch.testing.assert_close(fitted(bank=bank).mean, every.mean(0))


def test_without_novel_classes_all_images_are_of_known_ones() -> None:
    bank = Blobs()
    method = Centroids(
        Identity(str(D)), Task(KNOWN, 0, len(bank.known), "mixed", len(bank.known)), Centroids.Config()
    )
    bank.novel = bank.known
    method.begin(bank)
    assert hungarian_accuracy(method.eval().scores(bank.known)[0].argmax(1), bank.labels) > 0.9


def test_at_most_some_of_each_class_are_drawn() -> None:
    labels = torch.tensor([4, 2, 4, 2, 4, 7])
    rows = _at_most(labels, 2, random())
    assert labels[rows].tolist() == [2, 2, 4, 4, 7]
    assert len(set(rows.tolist())) == 5
    many = torch.zeros(100, dtype=torch.long)
    assert torch.equal(_at_most(many, 2, random()), _at_most(many, 2, random()))
    assert not torch.equal(_at_most(many, 2, random()), _at_most(many, 2, random(1)))


def test_the_known_classes_teach_which_features_matter() -> None:
    bank, found = Blobs(), fitted()
    _, novel = found.both_scores(bank.novel)
    assert hungarian_accuracy(novel[0].argmax(1), bank.truth) > 0.9
    plain = fitted(trials=0, neighbours=0)  # no choice, so not whitened
    _, without = plain.both_scores(bank.novel)
    assert hungarian_accuracy(without[0].argmax(1), bank.truth) < 0.8


def test_known_classes_are_recognised_too() -> None:
    bank, found = Blobs(), fitted()
    joint = found.scores(bank.known)[0]
    assert (joint.argmax(1) == bank.labels).float().mean() > 0.8


def test_any_known_class_may_be_hidden() -> None:
    bank, method, drawn = Blobs(), fitted(), random()
    trials = [method._hide(bank.known, bank.labels, drawn) for _ in range(30)]
    hidden = [bank.labels[rows].bincount(minlength=KNOWN) for rows, _ in trials]
    assert all(sorted(each.tolist()) == [0] * (KNOWN - NOVEL) + [EACH] * NOVEL for each in hidden)
    assert torch.stack(hidden).any(0).all()
    rows, (values, vectors) = trials[0]
    shown = ~torch.isin(bank.labels, bank.labels[rows])
    torch.testing.assert_close((values, vectors), spectrum(bank.known[shown], bank.labels[shown]))
    many, labels = Centroids(Identity("4"), Task(5, 7, 10), Centroids.Config()), torch.arange(50) % 5
    rows, _ = many._hide(torch.randn(50, 4), labels, random())
    assert len(set(labels[rows].tolist())) == 2  # half of the known classes at most


def test_hidden_classes_choose_what_finds_them() -> None:
    bank = Blobs()
    shrinkage, _ = fitted().choose(bank.known, bank.labels)
    assert shrinkage <= 1  # the features that vary most say nothing of the classes
    even = bank.known[:, : D // 2]
    spherical = Centroids(Identity(str(D // 2)), Task(KNOWN, NOVEL, 10), Centroids.Config(neighbours=0))
    shrinkage, _ = spherical.choose(even, bank.labels)
    assert shrinkage == math.inf  # of equals the most cautious


def test_the_seed_decides_everything() -> None:
    first, again = fitted(3).state_dict(), fitted(3).state_dict()
    assert all(torch.equal(value, again[key]) for key, value in first.items())


def test_with_too_few_known_classes_nothing_is_hidden() -> None:
    method = Centroids(Identity("4"), Task(3, 2, 10), Centroids.Config())
    assert method.choose(torch.randn(9, 4), torch.arange(9) % 3) == (math.inf, 0.0)
    method = Centroids(Identity("4"), Task(4, 2, 10), Centroids.Config())
    assert method.choose(torch.randn(12, 4, generator=random()), torch.arange(12) % 4)[1] != 0


def test_equal_classes_are_told_from_a_long_tail() -> None:
    def shares(bank: Blobs, prior: str) -> Tensor:
        return fitted(bank=bank, prior=prior).both_scores(bank.novel)[1][0].softmax(1).mean(0)

    equal = torch.full((NOVEL,), 1 / NOVEL)
    bank = Blobs()
    torch.testing.assert_close(shares(bank, "auto"), equal, rtol=0.01, atol=0.01)
    kept = torch.cat([(bank.truth == c).nonzero().flatten()[: EACH // (1 + 2 * c)] for c in range(NOVEL)])
    bank.novel, bank.truth = bank.novel[kept], bank.truth[kept]
    assert torch.equal(shares(bank, "auto"), shares(bank, "learned"))
    torch.testing.assert_close(shares(bank, "equal"), equal, rtol=0.01, atol=0.01)


def mixed_blobs() -> tuple[Blobs, Tensor]:
    """A bank with every fourth known sample in the pile, and the classes of the pile."""
    bank = Blobs()
    hidden = torch.arange(len(bank.known)) % 4 == 0
    truth = torch.cat([bank.labels[hidden], bank.truth + KNOWN])
    bank.novel = torch.cat([bank.known[hidden], bank.novel])
    bank.known, bank.labels = bank.known[~hidden], bank.labels[~hidden]
    return bank, truth


def test_known_images_of_a_mixed_pile_are_recognised() -> None:
    bank, truth = mixed_blobs()
    found = fitted(bank=bank, pile="mixed").scores(bank.novel)[0].argmax(1)
    is_known = truth < KNOWN
    assert (found[is_known] == truth[is_known]).float().mean() > 0.9
    assert (found[~is_known] >= KNOWN).float().mean() > 0.8
    assert hungarian_accuracy(found[~is_known], truth[~is_known]) > 0.7


def test_the_boundary_of_a_novel_pile_lies_in_its_gap_to_the_labelled_images() -> None:
    pile = torch.arange(101.0)
    assert gap(pile, torch.arange(300.0, 401)) == pytest.approx((99 + 305) / 2)
    assert gap(pile, torch.arange(50.0, 151)) == pytest.approx(99)


@pytest.mark.parametrize("pile", ["novel", "mixed"])
def test_scores_are_those_of_one_regression(pile: PileKind) -> None:
    bank, truth = mixed_blobs() if pile == "mixed" else (Blobs(), Blobs().truth + KNOWN)
    method = fitted(bank=bank, pile=pile)
    joint, novel = method.both_scores(bank.novel)
    x = method.whitened(bank.novel)
    torch.testing.assert_close(x.norm(dim=1), torch.ones(len(x)))
    torch.testing.assert_close(joint[0], x @ method.centres.T / method.config.tau + method.offsets)
    assert torch.equal(novel, joint[..., KNOWN:])
    as_known = float((joint[0].argmax(1) < KNOWN).float().mean())
    assert as_known == pytest.approx(float((truth < KNOWN).float().mean()), abs=0.1)


def test_scores_are_float32_under_autocast() -> None:
    bank, _ = mixed_blobs()
    method = fitted(bank=bank, pile="mixed")
    with torch.autocast("cpu", torch.bfloat16):
        found = method.both_scores(bank.novel)
    for each, expected in zip(found, method.both_scores(bank.novel), strict=True):
        assert torch.equal(each, expected)


def test_a_pile_without_known_images_is_one_of_novel_classes() -> None:
    bank = Blobs()
    open_pile, novel_pile = (fitted(bank=bank, pile=pile) for pile in ("mixed", "novel"))
    joint, scores = open_pile.both_scores(bank.novel)
    assert (joint[0].argmax(1) >= KNOWN).all()
    as_known = open_pile.both_scores(bank.known)[0][0].argmax(1) < KNOWN
    assert as_known.float().mean() > 0.9
    expected = novel_pile.both_scores(bank.novel)[1][0].argmax(1)
    assert hungarian_accuracy(scores[0].argmax(1), expected) > 0.97
