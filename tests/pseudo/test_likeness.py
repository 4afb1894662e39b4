"""Likeness to known classes: against its definition as loops, and the share of known images it tells."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.pseudo.likeness import (
    CLEAR,
    FEW,
    QUANTILES,
    RARE,
    Likeness,
    known_share,
    left_out,
    nearest,
    share_above_gap,
    upper_share,
    whitening,
)


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def top(values: list[float], k: float) -> float:
    """The mean of the first k, the last in part."""
    whole = int(k)
    return (sum(values[:whole]) + (k - whole) * (values[whole] if k > whole else 0)) / k


def test_a_vector_that_is_left_out_did_not_teach_the_metric() -> None:
    points, labels = torch.randn(30, 5, generator=random()).double(), torch.arange(30) % 3
    shrinkage, num_classes = 0.5, 3
    within = sum(torch.cov(points[labels == c].T, correction=0) * 10 for c in range(3)) / (30 - num_classes)
    ridge = shrinkage * torch.linalg.eigvalsh(within).mean() * torch.eye(5).double()
    whiten = whitening(points, labels, shrinkage).double()
    found = left_out(points, labels, whiten)
    for i in range(30):
        scatter = torch.zeros(5, 5).double()
        for c in range(num_classes):
            rest = points[[j for j in range(30) if j != i and labels[j] == c]]
            scatter += (rest - rest.mean(0)).T @ (rest - rest.mean(0))
        without = scatter / (30 - num_classes) + ridge
        products = points @ torch.linalg.solve(without, points[i])
        expected = torch.linalg.lstsq(points @ whiten, products).solution
        torch.testing.assert_close(found[i], expected / products[i].sqrt(), rtol=1e-4, atol=1e-4)


def test_no_image_is_its_own_neighbour() -> None:
    x = F.normalize(torch.randn(9, 4, generator=random()), dim=-1)
    k = torch.tensor([1.0, 2.4, 3, 4, 5, 6, 7, 8, 20])
    for i, mean in enumerate(nearest(x, x, k, torch.arange(9))):
        others = sorted((float(x[i] @ x[j]) for j in range(9) if j != i), reverse=True)
        assert float(mean) == pytest.approx(top(others, min(float(k[i]), 8)), abs=1e-6)
    new = F.normalize(torch.ones(1, 4), dim=-1)
    found = nearest(new, x, torch.tensor([2.0]), torch.tensor([-1]))
    torch.testing.assert_close(found, (new @ x.T).topk(2).values.mean(1))


def test_the_share_is_the_least_that_a_quantile_suggests() -> None:
    usual, found = torch.randn(50, generator=random()), torch.randn(80, generator=random(1)) - 0.5
    weights, wanted = torch.arange(50) % 3, []  # as if each image were there so many times
    many = sorted(usual.repeat_interleave(weights).tolist())
    for q in QUANTILES:
        limit = many[math.ceil(q * len(many)) - 1]
        wanted.append(float((found > limit).float().mean()) / (1 - q))
    assert known_share(usual, weights.float(), found) == pytest.approx(min(wanted))
    assert known_share(usual, weights.float(), usual + 9) == 1
    assert known_share(usual, weights.float(), usual - 9) == 0
    assert known_share(torch.zeros(5), torch.ones(5), torch.zeros(8)) == 0  # as known, but no more so


def test_two_clear_groups_are_divided_where_they_explain_most() -> None:
    found = torch.cat([torch.randn(40, generator=random()) - 9, torch.randn(20, generator=random(1)) - 2])
    explained = []
    values = sorted(found.tolist())
    for k in range(1, 60):
        parts = np.array(values[:k]), np.array(values[k:])
        explained.append(1 - sum(len(part) * part.var() for part in parts) / 60 / np.var(values))
    assert max(explained) > CLEAR
    above = float(np.mean(np.arange(60) > np.argmax(explained)))
    assert upper_share(torch.zeros(5), found) == pytest.approx(above) == pytest.approx(1 / 3)
    assert upper_share(torch.full((5,), 9.0), found) is None  # the labelled are like neither
    assert upper_share(torch.zeros(5), torch.linspace(-9, 0, 60)) is None
    assert upper_share(torch.zeros(5), torch.zeros(1)) is None


class Pile:
    """Twelve known and four novel classes, and few labelled images to learn the metric from."""

    def __init__(self, sizes: list[int], novel: int) -> None:
        means = torch.randn(16, 40, generator=random(1))
        self.labels = torch.arange(12).repeat_interleave(25)
        self.truth = torch.cat([torch.full((size,), c) for c, size in enumerate([*sizes, *[novel] * 4])])
        self.points, self.pile = (
            means[classes] + torch.randn(len(classes), 40, generator=random(seed))
            for seed, classes in ((2, self.labels), (3, self.truth))
        )
        self.whiten = whitening(self.points, self.labels, 0.3)

    def likeness(self, left: Tensor | None = None) -> Likeness:
        known, pile = (F.normalize(each @ self.whiten, dim=-1) for each in (self.points, self.pile))
        left = left_out(self.points, self.labels, self.whiten) if left is None else left
        return Likeness(known, left, self.labels, pile)


def test_likeness_is_that_of_the_definition() -> None:
    given = Pile([9, 30, 4, 50, 12, 8] * 2, 20)
    left = left_out(given.points, given.labels, given.whiten)
    known, pile = (F.normalize(each @ given.whiten, dim=-1) for each in (given.points, given.pile))
    found, x, N = given.likeness(), torch.cat([left, pile]), len(known)
    some = torch.arange(len(pile)) % 3 > 0
    classes = []
    for i in range(len(x)):
        cosines = []
        for c in range(12):
            rows = [j for j in range(N) if given.labels[j] == c and j != i]
            mean = F.normalize(known[rows].sum(0), dim=0)
            cosines.append(float(x[i] @ mean))
        classes.append(int(np.argmax(cosines)))
        near = sorted((float(x[i] @ known[j]) for j in range(N) if j != i), reverse=True)
        assert float(found.near[i]) == pytest.approx(top(near, 6.25 - (i < N) / 4) + max(cosines), abs=1e-5)
    assert found.classes.tolist() == classes
    ratios = []
    for c in range(12):
        typical = found.near[:N][given.labels == c].median()
        above = [i for i in range(len(x)) if classes[i] == c and found.near[i] > typical]
        ratios.append(sum(i >= N for i in above) / max(sum(i < N for i in above), 1))
    torch.testing.assert_close(found.weights, torch.tensor(ratios)[given.labels].clamp(min=RARE))
    few = np.bincount([c for c, row in zip(classes[N:], some.tolist(), strict=True) if row], minlength=12)
    for shown, sizes, among in (
        (some, few, found.among(some)),
        (torch.ones_like(some), 25 * np.array(ratios), (found.near - found.s) / 2),
    ):
        for i in range(len(x)):
            is_there = i >= N and bool(shown[i - N])
            others = [j for j in shown.nonzero().flatten().tolist() if N + j != i]
            near = sorted((float(x[i] @ pile[j]) for j in others), reverse=True)
            k = float(np.clip((sizes[classes[i]] - is_there) / 4, 2, 100))
            assert float(among[i]) == pytest.approx(top(near, k), abs=1e-5)


@pytest.mark.parametrize(
    ("sizes", "novel"), [([50] * 12, 50), ([120, 60, 30, 15, 8, 4] * 2, 40), ([10] * 12, 60)]
)
def test_the_share_of_known_images_is_told(sizes: list[int], novel: int) -> None:
    given = Pile(sizes, novel)
    likeness, is_known = given.likeness(), given.truth < 12
    share, clear = likeness.share()
    assert clear
    assert share == pytest.approx(float(is_known.float().mean()), abs=0.1)
    found = likeness.lowest(likeness.s, 1 - share)
    assert int(found.sum()) == round((1 - share) * len(found))
    assert float((found == ~is_known).float().mean()) > 0.85
    assert likeness.missed(found) == pytest.approx(float(found[is_known].float().mean()), abs=0.15)
    most, below, total = float(likeness.s[300:][found].max()), 0.0, 0.0
    for i in range(300):
        weight = float(likeness.weights[i])
        below, total = below + weight * (float(likeness.s[i]) <= most), total + weight
    assert likeness.missed(found) == pytest.approx(below / total, abs=1e-5)


def test_a_gap_below_the_known_images_is_seen() -> None:
    usual = torch.randn(200)
    known, novel = torch.randn(90), torch.cat([torch.full((60,), -20.0), torch.full((50,), -40.0)])
    for strays in (torch.empty(0), torch.tensor([-9.0])):
        found = torch.cat([known.repeat(6), strays, novel.repeat(6)])
        assert share_above_gap(usual, found) == pytest.approx(540 / len(found), abs=0.005)
        assert share_above_gap(usual - 12, found) is None  # the labelled are elsewhere
    assert share_above_gap(usual, torch.cat([known, novel * 0.1])) is None  # no gap
    assert share_above_gap(usual, novel + 15) is None  # one class of a pile of novel ones
    assert share_above_gap(usual, torch.zeros(1)) is None


def test_labelled_images_look_more_known_than_new_ones_unless_they_are_left_out() -> None:
    given = Pile([50] * 12, 50)
    as_taught = F.normalize(given.points @ given.whiten, dim=-1)
    taught, left = (
        known_share(each.s[:300], each.weights, each.s[300:])
        for each in (given.likeness(as_taught), given.likeness())
    )
    assert taught < left - 0.15


def test_a_pile_may_hold_no_known_image_or_hardly_anything_else() -> None:
    none = Pile([0] * 12, 50).likeness()
    assert none.share() == (0, False)
    assert none.missed(none.lowest(none.s, 1)) == pytest.approx(0, abs=0.1)
    assert Pile([10] * 12, 60).likeness().share()[0] > FEW
    known = Pile([50] * 12, 0).likeness()
    assert known.share()[0] > 0.9
    assert known.lowest(known.s, 2).all()


def test_the_nearest_labelled_images_are_a_quarter_of_a_class_within_limits() -> None:
    labels = torch.arange(3).repeat_interleave(torch.tensor([8, 60, 400]))
    known = F.normalize(torch.randn(len(labels), 6, generator=random()), dim=-1)
    part = Likeness(known, known, labels, known[:30]).part
    torch.testing.assert_close(part, torch.tensor([5 / 8, 15 / 60, 50 / 400]))


def test_the_share_that_is_missed_is_weighted() -> None:
    likeness = Pile([9, 30, 4, 50, 12, 8] * 2, 20).likeness()
    likeness.weights = torch.linspace(0.1, 3, likeness.num_labelled)
    rows = torch.arange(likeness.num_labelled, len(likeness.s)) % 5 == 0
    found = likeness.s[likeness.num_labelled :].tolist()
    limit = max(value for value, here in zip(found, rows, strict=True) if here)
    pairs = list(zip(likeness.s.tolist(), likeness.weights.tolist(), strict=False))
    expected = sum(weight for value, weight in pairs if value <= limit) / sum(weight for _, weight in pairs)
    assert 0 < expected < 1
    assert likeness.missed(rows) == pytest.approx(expected, rel=1e-5)
