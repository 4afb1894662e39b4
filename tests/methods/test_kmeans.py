"""k-means on features: centres, distances as scores, and nothing trained."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.records import Batch, Clock, Task
from newfound.methods.kmeans import FeatureKMeans, known_first

TASK = Task(2, 3)
COLOURS = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
"""Two known classes, then three novel ones, as far apart as colours are."""


class Colour(Encoder):
    """An image's mean colour."""

    dim = 3

    def __init__(self) -> None:
        super().__init__()
        self.block = torch.nn.Conv2d(3, 3, 1, bias=False)
        self.block.weight.data = torch.eye(3).view(3, 3, 1, 1)

    def trunk(self, images: Tensor) -> Tensor:
        return images

    @property
    def last_block(self) -> torch.nn.Module:
        return self.block


def coloured(classes: Tensor) -> Tensor:
    """An image of 2 x 2 pixels for each class, a little off its colour."""
    noise = torch.randn(len(classes), 3, generator=torch.Generator().manual_seed(len(classes))) * 0.01
    return (COLOURS[classes] + noise).view(-1, 3, 1, 1).expand(-1, 3, 2, 2)


class FakeBank:
    """The contract's view of a training set of colours."""

    def __init__(self) -> None:
        self.labels = torch.arange(12) % 2
        self.novel = torch.arange(30) % 3 + 2

    def labelled(self, function: Callable[[Tensor], Tensor], rows: Tensor | None = None) -> Tensor:
        return function(coloured(self.labels)).detach()

    def unlabelled(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        return function(coloured(self.novel)).detach()


@pytest.fixture
def fitted() -> FeatureKMeans:
    torch.manual_seed(0)
    method = FeatureKMeans(Colour(), TASK, FeatureKMeans.Config())
    method.begin(FakeBank())
    return method


def test_centres_are_the_means_of_the_classes(fitted: FeatureKMeans) -> None:
    bank = FakeBank()
    features = bank.labelled(fitted.encoder)
    known = torch.stack([features[bank.labels == c].mean(0) for c in range(2)])
    novel = bank.unlabelled(fitted.encoder)
    means = torch.stack([novel[bank.novel == c].mean(0) for c in (2, 3, 4)])
    torch.testing.assert_close(fitted.centres[:2], known)
    distances = torch.cdist(means, fitted.centres[2:])
    assert sorted(distances.argmin(1).tolist()) == [0, 1, 2]
    assert distances.amin(1).max() < 1e-5


def test_scores_are_minus_squared_distances_to_every_centre(fitted: FeatureKMeans) -> None:
    images = coloured(torch.arange(5))
    scores, features = fitted.scores(images), fitted.encoder(images)
    assert scores.shape == (1, 5, 5)
    for i in range(5):
        for c in range(5):
            expected = -((features[i] - fitted.centres[c]) ** 2).sum()
            torch.testing.assert_close(scores[0, i, c], expected, rtol=1e-4, atol=1e-5)
    assert scores[0, :2].argmax(-1).tolist() == [0, 1]
    assert sorted(scores[0, 2:].argmax(-1).tolist()) == [2, 3, 4]


def test_loss_is_the_mean_distance_of_the_unlabelled_to_their_novel_centre(fitted: FeatureKMeans) -> None:
    """The last unlabelled image looks like a known class, which is not what it is compared with."""
    labels, novel = torch.tensor([0, 1]), torch.tensor([2, 3, 4, 0])
    views = coloured(torch.cat([labels, novel]))[None]
    batch, clock = Batch((views,), labels, torch.arange(6)), Clock(torch.zeros(()))
    loss = fitted.loss(fitted(batch, clock), batch, clock)["inertia"]
    features = fitted.encoder(coloured(torch.cat([labels, novel])))[2:]
    nearest = [min(((z - mu) ** 2).sum().item() for mu in fitted.centres[2:]) for z in features]
    assert loss.item() == pytest.approx(sum(nearest) / 4, rel=1e-3, abs=1e-6)


def test_the_network_is_not_trained(fitted: FeatureKMeans) -> None:
    assert not any(parameter.requires_grad for parameter in fitted.parameters())
    assert fitted.schedules["discover"].epochs == 0


def test_of_a_mixed_pile_centres_are_named_after_the_known_classes_they_hold() -> None:
    class Mixed(FakeBank):
        def __init__(self) -> None:
            self.labels, self.novel = torch.tensor([1, 1, 0, 0, 1]), torch.arange(40) % 5

    torch.manual_seed(0)
    method = FeatureKMeans(Colour(), replace(TASK, pile="mixed"), FeatureKMeans.Config())
    method.begin(Mixed())
    found = method.scores(coloured(torch.arange(5)))[0].argmax(1).tolist()
    assert found[:2] == [0, 1]
    assert sorted(found[2:]) == [2, 3, 4]


def test_a_known_class_without_a_centre_of_its_own_gets_a_free_one() -> None:
    distances = torch.tensor([[0.0, 1, 1], [0.0, 1, 1], [0.0, 1, 1], [1.0, 0, 1]])
    assert known_first(distances, torch.tensor([1, 1, 0, 0]), Task(2, 1)).tolist() == [1, 0, 2]


def test_centres_of_novel_classes_keep_their_order() -> None:
    distances = torch.ones(2, 100)
    distances[0, 70] = distances[1, 30] = 0
    others = [c for c in range(100) if c not in (30, 70)]
    assert known_first(distances, torch.tensor([0, 1]), Task(2, 98)).tolist() == [70, 30, *others]


def test_centres_follow_the_seed_of_the_moment() -> None:
    centres = []
    for _ in range(2):
        torch.manual_seed(3)
        method = FeatureKMeans(Colour(), TASK, FeatureKMeans.Config())
        method.begin(FakeBank())
        centres.append(method.centres)
    assert torch.equal(*centres)
