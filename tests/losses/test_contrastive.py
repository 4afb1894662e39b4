"""Contrast against its definition as loops, in float64."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.losses.pairs import contrast, contrast_terms


def unit(V: int, B: int, D: int = 5, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(V, B, D, generator=random, dtype=torch.float64), dim=-1)


def definition(z: Tensor, labels: list[int], tau: float) -> float:
    """Anchor by anchor, positive by positive."""
    V, B, _ = z.shape
    every = [(v, i) for v in range(V) for i in range(B)]
    total = 0.0
    for v, i in every:
        others = [(w, j) for w, j in every if (w, j) != (v, i)]
        mass = sum(math.exp(float(z[v, i] @ z[w, j]) / tau) for w, j in others)
        positives = [(w, j) for w, j in others if labels[i] == labels[j]]
        logs = [float(z[v, i] @ z[w, j]) / tau - math.log(mass) for w, j in positives]
        total -= sum(logs) / len(logs)
    return total / len(every)


@pytest.mark.parametrize("tau", [1.0, 0.07])
@pytest.mark.parametrize(
    ("V", "labels"), [(2, [0, 1, 0, 2]), (2, [0, 0]), (2, [3]), (3, [1, 0, 1]), (2, [0, 1, 2, 3, 4])]
)
def test_contrast_is_its_definition(V: int, labels: list[int], tau: float) -> None:
    z = unit(V, len(labels))
    found = contrast(z, torch.tensor(labels), tau)
    assert found.item() == pytest.approx(definition(z, labels, tau), abs=1e-5)


def test_a_class_for_each_sample_is_info_nce() -> None:
    """Cross-entropy of [positive, 2B - 2 negatives] with the first, as in the authors' code."""
    z, B = unit(2, 4), 4
    logits, rows = [], [(v, i) for v in range(2) for i in range(B)]
    for v, i in rows:
        negatives = [z[v, i] @ z[w, j] for w, j in rows if j != i]
        logits.append(torch.stack([z[v, i] @ z[1 - v, i], *negatives]))
    expected = F.cross_entropy(torch.stack(logits), torch.zeros(2 * B, dtype=torch.int64))
    terms = contrast_terms(z, torch.tensor([0, 1, 0]), 0.35, 1.0, 0.07)
    assert terms["contrast"].item() == pytest.approx(0.65 * expected.item(), abs=1e-6)
    known = definition(z[:, :3], [0, 1, 0], 0.07)
    assert terms["known_contrast"].item() == pytest.approx(0.35 * known, abs=1e-5)


def test_gradients_are_finite_and_those_of_the_definition() -> None:
    z = unit(2, 3).requires_grad_()
    contrast(z, torch.tensor([0, 1, 0]), 0.5).backward()  # type: ignore[no-untyped-call]
    assert z.grad is not None
    step, moved = 1e-5, z.detach().clone()
    for place in ((0, 0, 1), (1, 2, 4)):
        up, down = moved.clone(), moved.clone()
        up[place] += step
        down[place] -= step
        slope = (definition(up, [0, 1, 0], 0.5) - definition(down, [0, 1, 0], 0.5)) / (2 * step)
        assert z.grad[place].item() == pytest.approx(slope, abs=1e-4)
