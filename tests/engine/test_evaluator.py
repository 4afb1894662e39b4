"""Both protocols on a method whose answers are made by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor

from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.data.images import Look, ResidentImages, Truth
from newfound.engine.bank import Viewer, scores_of
from newfound.engine.evaluator import Evaluator
from newfound.nn.small import SmallEncoder

CPU = torch.device("cpu")
TASK = Task(2, 3)
LOOK = Look(8, "digits", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 8)
PERFECT = [0, 1, 2, 3, 4]


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


def report(*tables: list[int], best_head: int = 0) -> dict[str, Any]:
    return evaluator(*tables)(best_head)


def agnostic(result: dict[str, Any], matching: str) -> tuple[float, float, float]:
    part = result["task_agnostic"][matching]
    known, novel, every = (part[name]["mean"] for name in ("known", "novel", "all"))
    return known, novel, every


def test_perfect_answers() -> None:
    result = report(PERFECT)
    for split in ("train", "test"):
        for metric in ("acc", "nmi", "ari"):
            assert result["task_aware"][split][metric] == {"mean": 1, "best_head": 1}
    assert result["task_aware"]["train"]["cluster_sizes"] == [4, 4, 4]
    assert result["task_aware"]["test"]["cluster_sizes"] == [2, 2, 2]
    for matching in ("legacy", "novel-ids", "joint"):
        assert agnostic(result, matching) == (1, 1, 1)


def test_novel_names_are_free_to_be_exchanged() -> None:
    result = report([0, 1, 4, 2, 3])
    assert result["task_aware"]["train"]["acc"]["mean"] == 1
    for matching in ("legacy", "novel-ids", "joint"):
        assert agnostic(result, matching) == (1, 1, 1)


def test_known_names_are_not() -> None:
    result = report([1, 0, 2, 3, 4])
    assert agnostic(result, "legacy") == (0, 1, 0.6)
    assert agnostic(result, "novel-ids") == (0, 1, 0.6)
    assert agnostic(result, "joint") == (1, 1, 1)


def test_a_novel_class_swallowed_by_a_known_one() -> None:
    """Class 2 is called 0: legacy matches it all the same, novel ids alone do not."""
    result = report([0, 1, 0, 3, 4])
    assert agnostic(result, "legacy") == (1, 1, 1)
    assert agnostic(result, "novel-ids") == pytest.approx((1, 2 / 3, 0.8))
    # Told by novel ids only, the images of class 2 all fall on the first of the novel ids, which is free.
    assert result["task_aware"]["test"]["acc"]["mean"] == 1


def test_two_novel_classes_as_one() -> None:
    result = report([0, 1, 2, 2, 4])
    assert result["task_aware"]["train"]["acc"]["mean"] == pytest.approx(2 / 3)
    assert result["task_aware"]["train"]["cluster_sizes"] == [8, 0, 4]
    assert agnostic(result, "joint") == pytest.approx((1, 2 / 3, 0.8))


def test_mean_over_heads_and_the_head_of_lowest_loss() -> None:
    result = report(PERFECT, [0, 1, 2, 2, 2], best_head=1)
    assert result["task_aware"]["train"]["acc"]["mean"] == pytest.approx(2 / 3)
    assert result["task_aware"]["train"]["acc"]["best_head"] == pytest.approx(1 / 3)
    assert result["task_agnostic"]["legacy"]["novel"]["best_head"] == pytest.approx(1 / 3)


def test_every_image_is_looked_at_once_and_those_at_hand_not_again() -> None:
    told = evaluator(PERFECT)
    result = told(0)
    assert isinstance(told.method, Told)
    assert told.method.looked_at == 12 + 10
    _, pile = scores_of(told.method, told.viewer, told.unlabelled)
    told.method.looked_at = 0
    assert told(0, pile) == result
    assert told.method.looked_at == 10
