"""Greedy k-means++ against its definition, with the same draws."""

import math

import pytest
import torch
from torch import Tensor

from newfound.estimate.seeding import greedy_seeds


def random() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def loops(points: Tensor, given: Tensor, number: int, restarts: int) -> list[list[int]]:
    """Restart by restart, trial by trial; the draws come in the order of the closed form."""
    generator, n = random(), len(points)
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
def test_the_definition(num_given: int, number: int) -> None:
    points = torch.randn(20, 3, dtype=torch.float64, generator=random())
    given = torch.randn(num_given, 3, dtype=torch.float64, generator=random())
    assert greedy_seeds(points, given, number, 3, random()).tolist() == loops(points, given, number, 3)


def test_every_group_gets_a_seed() -> None:
    centres = 100 * torch.eye(8)
    points = centres.repeat_interleave(10, 0) + torch.randn(80, 8, generator=random())
    seeds = greedy_seeds(points, centres[:3], 5, 4, random())
    assert [sorted((row // 10).tolist()) for row in seeds] == [[3, 4, 5, 6, 7]] * 4


def test_more_seeds_than_different_points() -> None:
    seeds = greedy_seeds(torch.zeros(3, 2), torch.zeros(0, 2), 6, 2, random())
    assert seeds.shape == (2, 6)
    assert (seeds < 3).all()
