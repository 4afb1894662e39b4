"""Reports: the mean over the heads and the given head, as plain JSON."""

from math import nan

import pytest
import torch

from newfound.core.records import Task
from newfound.metrics.protocols import (
    Clustering,
    Shares,
    generalised,
    summarise,
    task_agnostic,
    task_aware,
)
from newfound.metrics.report import Report

HEADS = [
    Clustering(0.9, 0.8, 0.7, [0.9, nan], [6, 4], [10, 0]),
    Clustering(0.5, 0.4, 0.3, [0.2, nan], [5, 5], [10, 0]),
]


def test_each_number_has_its_mean_and_the_value_of_the_given_head() -> None:
    report = summarise(1, HEADS, HEADS)
    assert report.task_agnostic is None
    assert report.task_aware.train == report.task_aware.test
    assert report.task_aware.train.model_dump() == {
        "acc": {"mean": pytest.approx(0.7), "best_head": 0.5},
        "nmi": {"mean": pytest.approx(0.6), "best_head": 0.4},
        "ari": {"mean": pytest.approx(0.5), "best_head": 0.3},
        "per_class_accuracy": [0.2, None],
        "cluster_sizes": [5, 5],
        "class_sizes": [10, 0],
    }


def test_the_task_agnostic_numbers_stand_under_their_matchings() -> None:
    first, second = Shares(0.8, nan, 0.8), Shares(0.4, nan, 0.4)
    heads = [
        {"legacy": first, "novel-ids": second, "joint": second},
        {"legacy": second, "novel-ids": second, "joint": second},
    ]
    found = summarise(0, HEADS, HEADS, heads).task_agnostic  # type: ignore[arg-type]
    assert found is not None
    assert found.legacy.known.mean == pytest.approx(0.6)
    assert (found.legacy.known.best_head, found.novel_ids.known.best_head) == (0.8, 0.4)
    assert found.legacy.novel.mean is None


@pytest.mark.parametrize("num_heads", [1, 3])
def test_a_report_survives_json_unchanged(num_heads: int) -> None:
    task = Task(3, 2)
    scores = torch.randn(num_heads, 12, 5)
    novel, joint = torch.tensor([3, 4] * 6), torch.arange(12) % 5
    aware, agnostic = task_aware(scores[..., 3:], novel, task), task_agnostic(scores, joint, task)
    mixed = generalised(scores, joint, task)
    report = summarise(num_heads - 1, aware, aware, agnostic, (mixed, mixed))
    assert report.generalised is not None
    assert report.generalised.test.recognised.best_head == mixed[-1].recognised
    text = report.model_dump_json(by_alias=True)
    assert Report.model_validate_json(text) == report
    assert '"novel-ids"' in text
