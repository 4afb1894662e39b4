"""The two protocols on a method: what it says of which images, against the truth."""

from typing import Any

from torch import Tensor

from newfound.core.learner import Method
from newfound.data.images import ImageSet, Truth
from newfound.engine.bank import Viewer, scores_of
from newfound.metrics.protocols import task_agnostic, task_aware
from newfound.metrics.summary import summarise


class Evaluator:
    """Scores a method; the only part of a run that holds the truth."""

    def __init__(self, method: Method, viewer: Viewer, unlabelled: ImageSet, truth: Truth) -> None:
        self.method, self.viewer, self.unlabelled, self.truth = method, viewer, unlabelled, truth

    def test_scores(self) -> tuple[Tensor, Tensor]:
        """Of the test images: (K, n, C), and (K, n, C_u) as if all were novel."""
        return scores_of(self.method, self.viewer, self.truth.test)

    def __call__(self, best_head: int, pile: Tensor | None = None) -> dict[str, Any]:
        """Both protocols: task-aware on the training and the test split, task-agnostic on the test split.

        The novel scores of the unlabelled images may be at hand as `pile`.
        """
        task, labels = self.method.task, self.truth.test_labels
        if pile is None:
            _, pile = scores_of(self.method, self.viewer, self.unlabelled)
        joint, novel = self.test_scores()
        is_novel = labels >= task.num_known
        aware = {
            "train": task_aware(pile, self.truth.labels, task),
            "test": task_aware(novel[:, is_novel], labels[is_novel], task),
        }
        return summarise(best_head, aware, task_agnostic(joint, labels, task))
