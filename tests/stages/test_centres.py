"""Where DTC's clusters begin, and its warm-up."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from newfound.core.errors import UsageError
from newfound.core.learner import NoSettings
from newfound.core.records import Batch, Clock, Task
from newfound.core.registry import stage_class
from newfound.nn.encoders.small import SmallEncoder
from newfound.stages.centres import CENTRES, Centres, ClusterHead, log_student_t, target_distribution
from newfound.stages.supervised import Known

TASK = Task(3, 2, num_unlabelled=12)


class Clumps:
    """A bank of unlabelled features in two clumps, of five and of seven."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.labels = torch.zeros(0)
        self.features = 0.1 * torch.randn(12, SmallEncoder.dim)
        self.features[5:] += torch.randn(SmallEncoder.dim)

    def labelled(self, function: Callable[[Tensor], Tensor], rows: Tensor | None = None) -> Tensor:
        raise AssertionError("no label is needed here")

    def unlabelled(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        return self.features


def stage(task: Task = TASK) -> Centres:
    torch.manual_seed(0)
    return Centres(SmallEncoder(), task, NoSettings())


def test_centres_are_those_of_kmeans_in_the_principal_components() -> None:
    learner, bank = stage(), Clumps()
    learner.begin(bank)
    centred = bank.features - bank.features.mean(0)
    axes = torch.linalg.svd(centred).Vh[:2]
    means = torch.stack([(centred[rows] @ axes.T).mean(0) for rows in (slice(5), slice(5, 12))])
    # Axes have no sign of their own and clusters no order.
    found = learner.clusters.centres.detach()
    found, means = (centres[centres.norm(dim=1).argsort()].abs() for centres in (found, means))
    torch.testing.assert_close(found, means, rtol=1e-3, atol=1e-4)


def test_targets_tell_the_clumps_apart() -> None:
    learner = stage()
    learner.begin(Clumps())
    torch.testing.assert_close(learner.targets.sum(-1), torch.ones(12))
    clusters = learner.targets.argmax(-1).tolist()
    first, second = set(clusters[:5]), set(clusters[5:])
    assert len(first) == len(second) == 1
    assert first != second


def test_the_loss_is_the_divergence_from_each_images_own_target() -> None:
    learner = stage()
    learner.targets.copy_(target_distribution(torch.rand(12, 2).softmax(-1)))
    index = torch.tensor([7, 2, 11])
    images = Batch((torch.rand(1, 3, 3, 8, 8),), torch.zeros(0, dtype=torch.int64), index)
    clock = Clock(torch.zeros(()))
    learner.eval()
    loss = learner.loss(learner(images, clock), images, clock)["kl"]
    z = learner.clusters.embed(learner.encoder(images.views[0][0]))
    log_q, p = log_student_t(z, learner.clusters.centres).double(), learner.targets[index].double()
    expected = sum((p[i, k] * (p[i, k].log() - log_q[i, k])).item() for i in range(3) for k in range(2)) / 6
    assert loss.item() == pytest.approx(expected, rel=1e-4)


def test_it_keeps_a_copy_of_the_classifier_that_training_does_not_move() -> None:
    torch.manual_seed(7)
    weights = Known(SmallEncoder(), TASK, NoSettings()).state_dict()
    learner = stage()
    learner.adopt(weights)
    for part in ("encoder", "h"):
        for key, value in getattr(learner.known, part).state_dict().items():
            assert torch.equal(value, weights[f"{part}.{key}"])
    assert not any(parameter.requires_grad for parameter in learner.known.parameters())


def test_more_classes_than_features_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"at least 5 features.* got 4"):
        ClusterHead(4, 5)


def test_it_is_the_stage_called_centres_with_a_constant_learning_rate() -> None:
    assert stage_class("centres") is Centres
    assert Centres.uses == "unlabelled"
    assert CENTRES.lr == 0.1
    assert CENTRES.lr_factor == 1
