"""The two protocols on a method: what it says of which images, against the truth."""

from typing import Any

from torch import Tensor

from newfound.core.learner import Method
from newfound.data.images import ImageSet, Truth
from newfound.engine.bank import Viewer
from newfound.metrics.protocols import task_agnostic, task_aware
from newfound.metrics.report import summarise


class Evaluator:
    """Scores a method; the only part of a run that holds the truth."""

    def __init__(self, method: Method, viewer: Viewer, unlabelled: ImageSet, truth: Truth) -> None:
        self.method, self.viewer, self.unlabelled, self.truth = method, viewer, unlabelled, truth

    def test_scores(self) -> Tensor:
        """(K, n, C) for the test images."""
        return self.viewer.over(self.truth.test, self.method.scores, axis=1)

    def novel_test_scores(self) -> Tensor:
        """(K, n, C_u) for the test images, as if all were novel."""
        return self.viewer.over(self.truth.test, self.method.novel_scores, axis=1)

    def __call__(self, best_head: int) -> dict[str, Any]:
        """Both protocols: task-aware on the training and the test split, task-agnostic on the test split."""
        task, labels = self.method.task, self.truth.test_labels
        test = self.test_scores()
        novel = self.method.novel_scores
        is_novel = labels >= task.num_known
        aware = {
            "train": task_aware(self.viewer.over(self.unlabelled, novel, axis=1), self.truth.labels, task),
            "test": task_aware(self.novel_test_scores()[:, is_novel], labels[is_novel], task),
        }
        return summarise(best_head, aware, task_agnostic(test, labels, task)).as_dict()
