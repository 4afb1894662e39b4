"""k-means against its definition as loops, against scikit-learn, and what must not change it."""

import math

import numpy as np
import pytest
import sklearn.cluster
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from newfound.pseudo import kmeans
from newfound.pseudo.kmeans import Anchors, Clusters, KMeans, greedy_seeds, lloyd

Array = NDArray[np.float64]


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=random(seed))


def model(points: Tensor, most: int, anchors: tuple[Tensor, Tensor] | None = None, seed: int = 0) -> KMeans:
    return KMeans(points, most, random(seed), restarts=10, iterations=100, anchors=anchors)


def groups(
    classes: int, each: int, dim: int = 4, apart: float = 10.0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Points (n, D) around the means of their classes (n,)."""
    labels = torch.arange(classes).repeat_interleave(each)
    return apart * normal(classes, dim, seed=seed)[labels] + normal(
        classes * each, dim, seed=seed + 1
    ), labels


def loops(
    points: Array, centres: Array, anchors: Array, classes: list[int], iterations: int
) -> tuple[list[int], Array, float]:
    """One restart, sample by sample."""
    centres, labels = centres.copy(), [-1] * len(points)
    for _ in range(iterations):
        found = [min(range(len(centres)), key=lambda c: ((x - centres[c]) ** 2).sum()) for x in points]
        if found == labels:
            break
        labels = found
        for c in range(len(centres)):
            members = [x for x, label in zip(points, labels, strict=True) if label == c]
            members += [x for x, label in zip(anchors, classes, strict=True) if label == c]
            if members:
                centres[c] = sum(members) / len(members)
    labels = [min(range(len(centres)), key=lambda c: ((x - centres[c]) ** 2).sum()) for x in points]
    inertia = sum(((x - centres[c]) ** 2).sum() for x, c in zip(points, labels, strict=True))
    inertia += sum(((x - centres[c]) ** 2).sum() for x, c in zip(anchors, classes, strict=True))
    return labels, centres, float(inertia)


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 14),
    num_anchors=st.integers(0, 3),
    free=st.integers(1, 4),
    restarts=st.integers(1, 3),
    iterations=st.sampled_from([1, 2, 30]),
    seed=st.integers(0, 99),
)
def test_every_restart_is_the_definition(
    n: int, num_anchors: int, free: int, restarts: int, iterations: int, seed: int
) -> None:
    points, k = normal(n, 3, seed=seed), num_anchors + free
    classes = torch.arange(2 * num_anchors) % max(num_anchors, 1)
    samples, start = normal(len(classes), 3, seed=seed + 1), normal(restarts, k, 3, seed=seed + 2)
    found = lloyd(points, start, Anchors.of(samples, classes, num_anchors), iterations)
    for labels, centres, inertia, begin in zip(*found, start, strict=True):
        wanted = loops(points.numpy(), begin.numpy(), samples.numpy(), classes.tolist(), iterations)
        assert labels.tolist() == wanted[0]
        np.testing.assert_allclose(centres, wanted[1], atol=1e-9)
        assert inertia.item() == pytest.approx(wanted[2], abs=1e-9)


@pytest.mark.parametrize("k", [1, 3, 8])
def test_without_anchors_it_is_as_tight_as_scikit_learns(k: int) -> None:
    points, _ = groups(6, 30, apart=2.0)
    ours = model(points.float(), k)(k)
    theirs = sklearn.cluster.KMeans(k, n_init=10, random_state=0).fit(points.numpy())
    assert ours.inertia <= 1.01 * theirs.inertia_
    true = (points - ours.centres[ours.labels]).square().sum()
    assert ours.inertia == pytest.approx(float(true), rel=1e-5)


def test_groups_that_lie_apart_are_found_and_given_ones_keep_their_place() -> None:
    points, labels = groups(6, 12)
    anchors = labels < 2
    found = model(points[~anchors], 6, (points[anchors], labels[anchors]))(6)
    assert not (found.labels < 2).any()
    assert len({(a, b) for a, b in zip(found.labels.tolist(), labels[~anchors].tolist(), strict=True)}) == 4
    torch.testing.assert_close(found.centres[0], points[labels == 0].mean(0))


def test_an_anchor_stays_where_it_was_put_even_if_another_centre_is_nearer() -> None:
    points = torch.tensor([[0.0], [1.0], [10.0], [11.0]])
    anchors = torch.tensor([[0.0], [10.5]])
    found = model(points, 2, (anchors, torch.zeros(2, dtype=torch.int64)))(2)
    assert found.labels[0] == found.labels[1] != found.labels[2] == found.labels[3]
    own, other = ((0, 1), (2, 3)) if found.labels[0] == 0 else ((2, 3), (0, 1))
    torch.testing.assert_close(found.centres[0], torch.cat([points[list(own)], anchors]).mean(0))
    torch.testing.assert_close(found.centres[1], points[list(other)].mean(0))


def test_empty_clusters_keep_their_centre() -> None:
    points = torch.tensor([[0.0, 0.0]]).repeat(5, 1)
    found = model(points, 4)(4)
    assert torch.isfinite(found.centres).all()
    assert found.inertia == pytest.approx(0)
    start = torch.tensor([[[0.0, 0.0], [50.0, 50.0]]])
    _, centres, _ = lloyd(points, start, Anchors.of(points[:0], torch.zeros(0).long(), 0), 5)
    assert centres[0, 1].tolist() == [50.0, 50.0]


@pytest.mark.parametrize("change", ["moved", "turned", "larger"])
def test_clusters_do_not_depend_on_place_direction_or_scale(change: str) -> None:
    points, labels = groups(5, 20, apart=1.5)
    turn = torch.linalg.qr(normal(4, 4, seed=9))[0]
    other = {"moved": points + 100, "turned": points @ turn, "larger": 7 * points}[change]
    given = labels < 2
    one, two = (model(each[~given], 8, (each[given], labels[given])) for each in (points, other))
    for k in (3, 5, 8):
        assert torch.equal(one(k).labels, two(k).labels)
        scale = 49 if change == "larger" else 1
        assert two(k).inertia == pytest.approx(scale * one(k).inertia, rel=1e-9)


def test_the_order_of_the_points_does_not_matter() -> None:
    points, start = normal(40, 3), normal(2, 5, 3, seed=1)
    none = Anchors.of(points[:0], torch.zeros(0).long(), 0)
    order = torch.randperm(40, generator=random())
    labels, centres, inertia = lloyd(points, start, none, 50)
    shuffled = lloyd(points[order], start, none, 50)
    assert torch.equal(labels[:, order], shuffled[0])
    torch.testing.assert_close(centres, shuffled[1])
    torch.testing.assert_close(inertia, shuffled[2])


def test_more_restarts_are_never_worse_and_may_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    points = normal(60, 3)
    at_once = model(points, 7)
    best = at_once(7)
    monkeypatch.setattr(kmeans, "MOST_DISTANCES", 2 * 60 * 7)
    in_turns = at_once(7)
    assert torch.equal(best.labels, in_turns.labels)
    assert best.inertia == pytest.approx(in_turns.inertia)
    starts = at_once.points[at_once.seeds]
    assert best.inertia == pytest.approx(lloyd(at_once.points, starts, at_once.anchors, 100)[2].min().item())


def test_swaps_mend_a_start_at_which_steps_end_too_early() -> None:
    """Two centres share a group, and one lies between two groups."""
    points, labels = groups(6, 20, seed=3)
    kmeans = model(points, 6)
    means = torch.stack([points[labels == c].mean(0) for c in range(6)])
    start = torch.stack([means[0] + 0.1, means[0] - 0.1, (means[1] + means[2]) / 2, *means[3:]])
    stuck = lloyd(kmeans.points, start[None] - kmeans.shift, kmeans.anchors, 100)
    bad = Clusters(stuck[0][0], stuck[1][0] + kmeans.shift, float(stuck[2][0]))
    best = kmeans(6)
    assert bad.inertia > 1.1 * best.inertia
    assert kmeans.improved(bad, 0, random()).inertia == pytest.approx(bad.inertia)
    mended = kmeans.improved(bad, 10, random())
    assert mended.inertia == pytest.approx(best.inertia)
    assert torch.cdist(mended.centres, best.centres).amin(1).max() < 1e-9
    assert torch.equal(mended.labels, torch.cdist(points, mended.centres).argmin(1))
    assert kmeans.improved(best, 5, random()).inertia <= best.inertia + 1e-9
    one = kmeans(1)
    assert kmeans.improved(one, 5, random()) is one


def test_the_same_seed_gives_the_same_bits() -> None:
    points = normal(60, 3).float()
    one, two = (model(points, 9, seed=4)(7) for _ in range(2))
    assert torch.equal(one.labels, two.labels)
    assert torch.equal(one.centres, two.centres)


def seeds_by_loops(points: Tensor, given: Tensor, number: int, restarts: int) -> list[list[int]]:
    """Greedy k-means++ restart by restart, trial by trial; the draws come in the order of the closed form."""
    generator, n = random(3), len(points)
    trials = 2 + int(math.log(len(given) + number))
    seeds: list[list[int]] = [[] for _ in range(restarts)]
    if not len(given):
        seeds = [[row] for row in torch.randint(n, (restarts,), generator=generator).tolist()]

    def nearest(centres: list[Tensor]) -> list[float]:
        return [min(float((x - centre).square().sum()) for centre in centres) for x in points]

    while len(seeds[0]) < number:
        marks = torch.rand(restarts, trials, dtype=torch.float64, generator=generator)
        for rows, mark in zip(seeds, marks, strict=True):
            centres = [*given, *(points[row] for row in rows)]
            weights = torch.tensor(nearest(centres), dtype=torch.float64)
            drawn = [int((weights.cumsum(0) < m * weights.sum()).sum()) for m in mark]
            rows.append(min(drawn, key=lambda row: sum(nearest([*centres, points[row]]))))
    return seeds


@pytest.mark.parametrize(("num_given", "number"), [(0, 1), (0, 6), (2, 1), (3, 7)])
def test_seeds_by_definition(num_given: int, number: int) -> None:
    points = torch.randn(20, 3, dtype=torch.float64, generator=random(3))
    given = torch.randn(num_given, 3, dtype=torch.float64, generator=random(3))
    assert greedy_seeds(points, given, number, 3, random(3)).tolist() == seeds_by_loops(
        points, given, number, 3
    )


def test_every_group_gets_a_seed() -> None:
    centres = 100 * torch.eye(8)
    points = centres.repeat_interleave(10, 0) + torch.randn(80, 8, generator=random(3))
    seeds = greedy_seeds(points, centres[:3], 5, 4, random(3))
    assert [sorted((row // 10).tolist()) for row in seeds] == [[3, 4, 5, 6, 7]] * 4


def test_more_seeds_than_different_points() -> None:
    seeds = greedy_seeds(torch.zeros(3, 2), torch.zeros(0, 2), 6, 2, random(3))
    assert seeds.shape == (2, 6)
    assert (seeds < 3).all()
