"""Contrastive losses against their definitions as loops."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.losses.contrastive import (
    class_contrast,
    group_contrast,
    hardest_mixtures,
    mixtures,
    neighbour_contrast,
)

TAU = 0.2


def unit(*shape: int, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(shape, generator=random, dtype=torch.float64), dim=-1)


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def soft_cross_entropy(logits: list[float], targets: list[float]) -> float:
    assert sum(targets) == pytest.approx(1)
    everything = math.log(sum(math.exp(logit) for logit in logits))
    return sum(t * (everything - logit) for t, logit in zip(targets, logits, strict=True))


def test_a_group_is_contrasted_with_all_other_rows() -> None:
    z, groups = unit(7, 4), [0, 1, 0, 2, 1, 2, 0]
    rows, expected = z.tolist(), 0.0
    for i in range(7):
        others = [j for j in range(7) if j != i]
        mates = [j for j in others if groups[j] == groups[i]]
        targets = [1 / len(mates) if j in mates else 0.0 for j in others]
        expected += soft_cross_entropy([dot(rows[i], rows[j]) / TAU for j in others], targets) / 7
    assert group_contrast(z, torch.tensor(groups), TAU).item() == pytest.approx(expected)


def test_a_class_draws_the_other_view_and_all_of_it_that_is_remembered() -> None:
    q, k, memory = unit(3, 4), unit(3, 4, seed=1), unit(5, 4, seed=2)
    labels, remembered, expected = [0, 1, 2], [0, 1, 0, -1, -1], 0.0
    for i in range(3):
        logits = [dot(q[i].tolist(), row) / TAU for row in [k[i].tolist(), *memory.tolist()]]
        positive = [True, *(label == labels[i] for label in remembered)]
        expected += soft_cross_entropy(logits, [p / sum(positive) for p in positive]) / 3
    loss = class_contrast(q, k, memory, torch.tensor(labels), torch.tensor(remembered).float(), TAU)
    assert loss.item() == pytest.approx(expected)


@pytest.mark.parametrize("same_view", [False, True])
def test_neighbours_come_from_the_memory_and_share_what_the_other_view_leaves(same_view: bool) -> None:
    """The targets sum to one even where the other view is nearer than every neighbour."""
    q, memory, negatives = unit(3, 4), unit(6, 4, seed=2), unit(3, 2, seed=3)
    k, expected = q if same_view else unit(3, 4, seed=1), 0.0
    for i in range(3):
        remembered = [dot(q[i].tolist(), row) / TAU for row in memory.tolist()]
        nearest = sorted(range(6), key=lambda j: -remembered[j])[:2]
        shares = [0.8 / 2 if j in nearest else 0.0 for j in range(6)]
        own = dot(q[i].tolist(), k[i].tolist()) / TAU
        driven = [cosine / TAU for cosine in negatives[i].tolist()]
        expected += soft_cross_entropy([own, *remembered, *driven], [0.2, *shares, 0.0, 0.0]) / 3
    loss = neighbour_contrast(q, k, memory, negatives, neighbours=2, own_share=0.2, tau=TAU)
    assert loss.item() == pytest.approx(expected)


def test_a_negative_at_minus_infinity_is_none() -> None:
    q, memory = unit(3, 4).requires_grad_(), unit(6, 4, seed=2)
    losses = [
        neighbour_contrast(q, q.detach(), memory, negatives, neighbours=2, own_share=0.2, tau=TAU)
        for negatives in (torch.empty(3, 0), torch.full((3, 2), -torch.inf))
    ]
    assert torch.equal(*losses)
    gradients = [torch.autograd.grad(loss, q)[0] for loss in losses]
    torch.testing.assert_close(*gradients)


def test_the_hardest_mixtures_are_the_nearest_of_those_of_the_farthest_rows() -> None:
    q, memory, labelled = unit(3, 4), unit(6, 4, seed=1), unit(5, 4, seed=2)
    partners = torch.tensor([[0, 1, 2, 3, 4, 0], [4, 4, 1, 1, 0, 2]])
    found = hardest_mixtures(q, memory, mixtures(memory, labelled, partners), farthest=3, count=4)
    for i in range(3):
        sample = q[i].tolist()
        far = sorted(range(6), key=lambda j, sample=sample: dot(sample, memory[j].tolist()))[:3]  # type: ignore[misc]
        cosines = []
        for j in far:
            for partner in partners[:, j].tolist():
                for a, b in ((2 / 3, 1 / 3), (1 / 3, 2 / 3)):
                    mixed = [
                        a * u + b * v
                        for u, v in zip(memory[j].tolist(), labelled[partner].tolist(), strict=True)
                    ]
                    cosines.append(dot(sample, mixed) / math.sqrt(dot(mixed, mixed)))
        assert found[i].tolist() == pytest.approx(sorted(cosines, reverse=True)[:4])
