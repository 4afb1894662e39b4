"""Confusion tables whose clusters stand under their classes."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from newfound.core.records import Task
from newfound.metrics.protocols import task_agnostic
from newfound.report.confusion import accuracy, draw_confusion, matched_table


def test_clusters_move_under_their_classes_and_known_ids_stay() -> None:
    true = np.array([0, 1, 2, 2, 3, 3])
    predicted = np.array([1, 0, 3, 3, 2, 0])
    assert matched_table(predicted, true, 4, 4, num_known=2).tolist() == [
        [0, 1, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 2, 0],
        [1, 0, 0, 1],
    ]


def test_clusters_left_over_come_last() -> None:
    table = matched_table(np.array([0, 2, 2, 1]), np.array([0, 1, 1, 1]), 3, 2, num_known=1)
    assert table.tolist() == [[1, 0, 0], [0, 2, 1]]


def test_a_class_without_a_cluster_has_an_empty_column() -> None:
    table = matched_table(np.array([0, 0, 0]), np.array([0, 1, 1]), 1, 2, num_known=0)
    assert table.tolist() == [[0, 1], [0, 2]]


def test_its_accuracy_is_that_of_the_novel_ids_matching() -> None:
    generator = torch.Generator().manual_seed(0)
    scores, labels = torch.randn(60, 7, generator=generator), torch.arange(60) % 7
    (head,) = task_agnostic(scores[None], labels, Task(4, 3))
    table = matched_table(scores.argmax(-1).numpy(), labels.numpy(), 7, 7, num_known=4)
    assert accuracy(table) == pytest.approx(head["novel-ids"].all)


def test_rows_are_percentages_and_an_empty_row_is_zero() -> None:
    axes = Figure().subplots()
    draw_confusion(np.array([[3, 1], [0, 0]]), ["0 a", "1 b"], ["0 a", "1 b"], "title", axes)
    assert [text.get_text() for text in axes.texts] == ["75", "25", "0", "0"]
    assert axes.get_title() == "title"
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["0 a", "1 b"]


def test_a_large_matrix_shows_indices_only() -> None:
    axes = Figure().subplots()
    names = [f"{index} name" for index in range(80, 100)]
    draw_confusion(np.eye(20, dtype=np.int64), names, names, "title", axes)
    assert not axes.texts
    assert [tick.get_text() for tick in axes.get_xticklabels()][:3] == ["80", "82", "84"]
