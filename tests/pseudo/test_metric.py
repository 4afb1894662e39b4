"""The metric of known classes against its definitions in numpy."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from newfound.pseudo.likeness import average, principal_components, whitening


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_whitening_is_the_inverse_root_of_the_shrunk_covariance_within_classes() -> None:
    points, labels = torch.randn(60, 5, generator=random()), torch.arange(60) % 4
    within = np.zeros((5, 5))
    for c in range(4):
        own = points[labels == c].numpy().astype(float)
        for x in own:
            within += np.outer(x - own.mean(0), x - own.mean(0)) / (60 - 4)
    shrunk = within + 0.3 * np.linalg.eigvalsh(within).mean() * np.eye(5)
    found = whitening(points, labels, 0.3).numpy().astype(float)
    np.testing.assert_allclose(found @ shrunk @ found, np.eye(5), atol=1e-5)
    np.testing.assert_allclose(found, found.T, atol=1e-6)
    assert torch.equal(whitening(points, labels, math.inf), torch.eye(5))


def test_one_image_of_each_class_says_nothing_of_the_variance_within() -> None:
    assert torch.equal(whitening(torch.randn(3, 4), torch.arange(3), 1.0), torch.eye(4))


def test_principal_components_are_those_of_numpy() -> None:
    points = torch.randn(50, 6, generator=random()) * torch.arange(1, 7)
    points = points - points.mean(0)
    _, _, rows = np.linalg.svd(points.numpy().astype(float))
    found = principal_components(points, 3).numpy()
    for component in range(3):
        assert abs(found[:, component] @ rows[component]) == pytest.approx(1, abs=1e-4)


def test_an_average_is_over_the_nearest_of_the_pile() -> None:
    x, pile = (F.normalize(torch.randn(n, 4, generator=random(n)), dim=-1) for n in (3, 20))
    found = average(x, pile, 5)
    for row in range(3):
        order = sorted(range(20), key=lambda j: -float(x[row] @ pile[j]))[:5]
        total = x[row] + sum((pile[j] for j in order), torch.zeros(4))
        torch.testing.assert_close(found[row], total / total.norm())
    torch.testing.assert_close(average(x, pile, 21), average(x, pile, 20))  # there are no more
