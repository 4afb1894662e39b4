"""Summaries: the mean and the given head, plain JSON, and warnings of collapse."""

import json
from math import nan

import pytest
import torch

from newfound.core.records import Task
from newfound.metrics.protocols import Accuracies, Clustering, task_agnostic, task_aware
from newfound.metrics.summary import summarise, warnings_for

HEADS = [
    Clustering(0.9, 0.8, 0.7, [0.9, nan], [6, 4], [10, 0]),
    Clustering(0.5, 0.4, 0.3, [0.2, nan], [5, 5], [10, 0]),
]


def test_each_number_has_its_mean_and_the_value_of_the_given_head() -> None:
    summary = summarise(1, {"train": HEADS})
    assert summary == {
        "task_aware": {
            "train": {
                "acc": {"mean": pytest.approx(0.7), "best_head": 0.5},
                "nmi": {"mean": pytest.approx(0.6), "best_head": 0.4},
                "ari": {"mean": pytest.approx(0.5), "best_head": 0.3},
                "per_class_accuracy": [0.2, None],
                "cluster_sizes": [5, 5],
                "class_sizes": [10, 0],
            }
        },
        "task_agnostic": {},
    }


def test_the_task_agnostic_numbers_stand_under_their_matchings() -> None:
    heads = [
        {"legacy": Accuracies(0.8, nan, 0.8), "joint": Accuracies(0.6, nan, 0.6)},
        {"legacy": Accuracies(0.4, nan, 0.4), "joint": Accuracies(0.2, nan, 0.2)},
    ]
    summary = summarise(0, {}, heads)["task_agnostic"]  # type: ignore[arg-type]
    assert list(summary) == ["legacy", "joint"]
    assert summary["legacy"] == {
        "known": {"mean": pytest.approx(0.6), "best_head": 0.8},
        "novel": {"mean": None, "best_head": None},
        "all": {"mean": pytest.approx(0.6), "best_head": 0.8},
    }


@pytest.mark.parametrize("num_heads", [1, 3])
def test_a_summary_survives_json_unchanged(num_heads: int) -> None:
    task = Task(3, 2)
    scores = torch.randn(num_heads, 12, 5)
    novel, joint = torch.tensor([3, 4] * 6), torch.arange(12) % 5
    aware, agnostic = task_aware(scores[..., 3:], novel, task), task_agnostic(scores, joint, task)
    summary = summarise(num_heads - 1, {"train": aware, "test": aware}, agnostic)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert list(summary["task_agnostic"]) == ["legacy", "novel-ids", "joint"]


NAMES = ("ant", "dog", "frog", "ship")


def warnings(*sizes: int) -> list[str]:
    return warnings_for(sizes, NAMES[: len(sizes)])


def test_healthy_clusters_raise_no_warning() -> None:
    assert warnings(5, 4, 6) == []
    assert warnings(9, 1) == []
    assert warnings(0, 0, 0) == []


def test_empty_clusters_are_named() -> None:
    (warning,) = warnings(5, 0, 5, 0)
    assert "2 of 4 novel clusters got no image: dog, ship" in warning


def test_of_many_empty_clusters_the_first_are_named() -> None:
    (warning,) = warnings_for([4, 4, *[0] * 5], [str(index) for index in range(7)])
    assert "5 of 7 novel clusters got no image: 2, 3, 4, 5, 6; there" in warning
    (warning,) = warnings_for([4, 4, *[0] * 72], [str(index) for index in range(74)])
    assert "72 of 74 novel clusters got no image: 2, 3, 4, 5, 6 and 67 more; there" in warning


def test_a_cluster_that_swallows_the_rest_is_named() -> None:
    (warning,) = warnings(1, 8, 1)
    assert "novel cluster dog holds 80% of the images" in warning
    assert len(warnings(0, 9, 1)) == 2
    (warning,) = warnings(66, 1)
    assert "novel cluster ant holds 99% of the images" in warning
    assert warnings(60, 7) == []


@pytest.mark.parametrize("sizes", [(0, 200, 0), (0, 5)])
def test_a_cluster_that_holds_all_images_is_named(sizes: tuple[int, ...]) -> None:
    empty, collapsed = warnings(*sizes)
    assert "got no image" in empty
    assert "novel cluster dog holds 100% of the images; the clusters may have collapsed" in collapsed


def test_one_cluster_cannot_collapse() -> None:
    assert warnings(7) == []
