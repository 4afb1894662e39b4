"""A network over whole sets of images in evaluation mode, and both protocols on answers made by hand."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from newfound.core.errors import RunError
from newfound.core.learner import Learner, Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.data.augment import evaluation_view
from newfound.data.dataset import Dataset, Look, Truth
from newfound.data.images import ResidentImages
from newfound.engine import evaluate
from newfound.engine.evaluate import Evaluator, TrainingBank, Viewer, scores_of
from newfound.metrics.report import Accuracies, Report, Score
from newfound.nn.encoders.small import SmallEncoder
from newfound.stages.supervised import Supervised
from tests.tiny import CPU

TASK = Task(2, 3)
LOOK = Look(8, "digits", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 8)
PERFECT = [0, 1, 2, 3, 4]


@pytest.fixture
def learner() -> Learner:
    torch.manual_seed(0)
    return Supervised(SmallEncoder(), Task(5, 5), Supervised.Config())


def viewer(learner: Learner, data: Dataset, precision: torch.dtype = torch.float32) -> Viewer:
    return Viewer(learner, data.split.look, CPU, precision)


def plain(data: Dataset) -> Tensor:
    """All unlabelled images as evaluation sees them."""
    look, images = data.split.look, data.split.unlabelled
    pixels = images.take(torch.arange(len(images)))
    return evaluation_view(pixels, look.size, look.kind, look.mean, look.std)


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_mode_inside_and_the_old_mode_after(
    learner: Learner, digits: Dataset, training: bool
) -> None:
    learner.train(training)
    seen = []

    def look_at_it(images: Tensor) -> Tensor:
        seen.append((learner.training, learner.encoder.training, torch.is_grad_enabled()))
        return images

    viewer(learner, digits).over(digits.split.unlabelled, look_at_it)
    assert set(seen) == {(False, False, False)}
    assert (learner.training, learner.encoder.training, torch.is_grad_enabled()) == (training, training, True)


def test_running_statistics_and_weights_stay(learner: Learner, digits: Dataset) -> None:
    before = {key: value.clone() for key, value in learner.state_dict().items()}
    viewer(learner, digits).over(digits.split.unlabelled, learner.encoder)
    assert all(torch.equal(value, before[key]) for key, value in learner.state_dict().items())


@pytest.mark.parametrize("chunk", [7, 1000])
def test_over_is_one_big_call(
    learner: Learner, digits: Dataset, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To 1e-5, since a convolution may add up in another order for another number of images."""
    monkeypatch.setattr(evaluate, "CHUNK", chunk)
    out = viewer(learner, digits).over(digits.split.unlabelled, learner.encoder)
    with torch.no_grad():
        expected = learner.eval().encoder(plain(digits))
    assert not out.requires_grad
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


def test_parts_are_joined_along_the_axis_in_the_order_of_the_rows(
    learner: Learner, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "CHUNK", 10)
    images = digits.split.unlabelled

    def three_heads(view: Tensor) -> Tensor:
        return torch.stack([view.flatten(1) + head for head in range(3)])

    out = viewer(learner, digits).over(images, three_heads, axis=1)
    assert out.shape == (3, len(images), 3 * 8 * 8)
    assert torch.equal(out, three_heads(plain(digits)))


def test_half_precision_comes_back_as_float32(learner: Learner, digits: Dataset) -> None:
    """bf16 keeps 8 bits, and three layers lose a little more."""
    full, half = (
        viewer(learner, digits, precision).over(digits.split.unlabelled, learner.encoder)
        for precision in (torch.float32, torch.bfloat16)
    )
    assert half.dtype == torch.float32
    assert not torch.equal(full, half)
    torch.testing.assert_close(full, half, rtol=0.05, atol=0.05 * full.abs().max().item())


def test_what_is_no_number_is_refused(learner: Learner, digits: Dataset) -> None:
    with pytest.raises(RunError, match="diverged"):
        viewer(learner, digits).over(digits.split.unlabelled, lambda view: view * torch.nan)


def test_the_training_bank_is_the_two_sets_and_their_labels(learner: Learner, digits: Dataset) -> None:
    split = digits.split
    view = viewer(learner, digits)
    whole = TrainingBank(view, split)
    assert torch.equal(whole.labels, split.labels)
    assert torch.equal(whole.labelled(learner.encoder), view.over(split.labelled, learner.encoder))
    assert torch.equal(whole.unlabelled(learner.encoder), view.over(split.unlabelled, learner.encoder))
    assert len(whole.labelled(learner.encoder)) == len(whole.labels)


class Told(Method):
    """Reads the class of an image off its grey level; each head answers with its own table."""

    views = Views()

    def __init__(self, *tables: list[int]) -> None:
        super().__init__(SmallEncoder(), TASK, None)
        self.answers = torch.eye(TASK.num_classes)[torch.tensor(tables)]
        self.looked_at = 0

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        raise NotImplementedError

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        raise NotImplementedError

    def scores(self, images: Tensor) -> Tensor:
        self.looked_at += len(images)
        return self.answers[:, (images[:, 0, 0, 0] * 255).round().long()]


def painted(classes: Tensor) -> ResidentImages:
    pixels = classes.to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, 8, 8)
    return ResidentImages(pixels, [f"image-{row}" for row in range(len(classes))])


def evaluator(*tables: list[int]) -> Evaluator:
    """4 unlabelled images of each novel class, 2 test images of every class."""
    method = Told(*tables)
    pile, test = torch.arange(12) % 3 + 2, torch.arange(10) % 5
    truth = Truth(pile, painted(test), test)
    return Evaluator(method, Viewer(method, LOOK, CPU, torch.float32), painted(pile), truth)


def report(*tables: list[int], best_head: int = 0) -> Report:
    return evaluator(*tables)(best_head)


def agnostic(result: Report, matching: str) -> tuple[float | None, float | None, float | None]:
    """Means of one matching: known, novel, all."""
    assert result.task_agnostic is not None
    part: Accuracies = getattr(result.task_agnostic, matching)
    return part.known.mean, part.novel.mean, part.all.mean


def test_perfect_answers() -> None:
    result = report(PERFECT)
    for split in (result.task_aware.train, result.task_aware.test):
        assert split.acc == split.nmi == split.ari == Score(mean=1, best_head=1)
    assert result.task_aware.train.cluster_sizes == [4, 4, 4]
    assert result.task_aware.test.cluster_sizes == [2, 2, 2]
    for matching in ("legacy", "novel_ids", "joint"):
        assert agnostic(result, matching) == (1, 1, 1)


def test_novel_names_are_free_to_be_exchanged() -> None:
    result = report([0, 1, 4, 2, 3])
    assert result.task_aware.train.acc.mean == 1
    for matching in ("legacy", "novel_ids", "joint"):
        assert agnostic(result, matching) == (1, 1, 1)


def test_known_names_are_not() -> None:
    result = report([1, 0, 2, 3, 4])
    assert agnostic(result, "legacy") == (0, 1, 0.6)
    assert agnostic(result, "novel_ids") == (0, 1, 0.6)
    assert agnostic(result, "joint") == (1, 1, 1)


def test_a_novel_class_swallowed_by_a_known_one() -> None:
    """Class 2 is called 0: legacy matches it all the same, novel ids alone do not."""
    result = report([0, 1, 0, 3, 4])
    assert agnostic(result, "legacy") == (1, 1, 1)
    assert agnostic(result, "novel_ids") == pytest.approx((1, 2 / 3, 0.8))
    # Told by novel ids only, the images of class 2 all fall on the first of the novel ids, which is free.
    assert result.task_aware.test.acc.mean == 1


def test_two_novel_classes_as_one() -> None:
    result = report([0, 1, 2, 2, 4])
    assert result.task_aware.train.acc.mean == pytest.approx(2 / 3)
    assert result.task_aware.train.cluster_sizes == [8, 0, 4]
    assert agnostic(result, "joint") == pytest.approx((1, 2 / 3, 0.8))


def test_mean_over_heads_and_the_head_of_lowest_loss() -> None:
    result = report(PERFECT, [0, 1, 2, 2, 2], best_head=1)
    assert result.task_aware.train.acc.mean == pytest.approx(2 / 3)
    assert result.task_aware.train.acc.best_head == pytest.approx(1 / 3)
    assert result.task_agnostic is not None
    assert result.task_agnostic.legacy.novel.best_head == pytest.approx(1 / 3)


def test_where_known_images_are_in_the_pile_all_classes_are_matched_at_once() -> None:
    told = evaluator([1, 0, 2, 3, 1])
    classes = torch.tensor([0, 0, 1, 2, 2, 3, 4, 4])
    mixed = Evaluator(told.method, told.viewer, painted(classes), replace(told.truth, labels=classes))(0)
    assert mixed.generalised is not None
    # Classes 0 and 1 are renamed; id 1 then belongs to class 0, so that class 4 is lost.
    train = mixed.generalised.train
    assert (train.known.mean, train.novel.mean, train.all.mean) == (1, 3 / 5, 6 / 8)
    assert (train.recognised.mean, train.mistaken.mean) == (1, 2 / 5)
    assert mixed.generalised.test.mistaken.best_head == pytest.approx(1 / 3)
    # The novel images alone, told by novel ids alone; class 4 has no novel vote and shares the first id.
    assert mixed.task_aware.train.class_sizes == [2, 1, 2]
    assert told(0).generalised is None


def test_every_image_is_looked_at_once_and_those_at_hand_not_again() -> None:
    told = evaluator(PERFECT)
    result = told(0)
    assert isinstance(told.method, Told)
    assert told.method.looked_at == 12 + 10
    pile = scores_of(told.method, told.viewer, told.unlabelled)
    told.method.looked_at = 0
    assert told(0, pile) == result
    assert told.method.looked_at == 10
