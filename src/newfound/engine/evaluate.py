"""Applies a network to whole image sets in evaluation mode, and scores its predictions."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newfound.core import dist
from newfound.core.errors import RunError
from newfound.core.learner import Learner, Method
from newfound.data.augment import evaluation_view
from newfound.data.dataset import Look, Split, Truth
from newfound.data.images import ImageSet
from newfound.engine.device import safer_settings
from newfound.metrics.calibration import calibration_error, told_right
from newfound.metrics.outliers import Extent, Flags
from newfound.metrics.protocols import generalised, summarise, task_agnostic, task_aware
from newfound.metrics.report import Report

CHUNK = 1000
"""Images in a forward pass."""
PART = 100_000
"""Vectors that are compared with their classes at a time."""
Function = Callable[[Tensor], Tensor]


class Viewer:
    """Applies functions of a learner to images: no augmentation, no gradient, running statistics."""

    def __init__(self, learner: Learner, look: Look, device: torch.device, precision: torch.dtype) -> None:
        self.learner, self.look, self.device, self.precision = learner, look, device, precision

    @torch.no_grad()
    def over(
        self,
        images: ImageSet,
        function: Function,
        axis: int = 0,
        rows: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """Apply `function` to every image, or to those in `rows`, and join the results along `axis`.

        If several processes train together, each computes a part.
        """
        was_training, look = self.learner.training, self.look
        self.learner.eval()
        out = []
        rows = torch.arange(len(images), device=self.device) if rows is None else rows
        divided = len(rows) >= dist.world()
        own = dist.share(rows, 0, len(rows)) if divided else rows
        for pixels in images.take_each(torch.split(own, CHUNK)):
            view = evaluation_view(pixels, look.size, look.kind, look.mean, look.std)
            with torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32):
                out.append(function(view).to(dtype))
        self.learner.train(was_training)
        joined = torch.cat(out, dim=axis)
        joined = dist.gather(joined, axis, len(rows)) if divided else joined
        if joined.isnan().any():
            raise RunError(
                f"Training has diverged to NaN. Start a new run with {safer_settings(self.precision)}."
            )
        return joined


def scores_of(method: Method, viewer: Viewer, images: ImageSet) -> tuple[Tensor, Tensor]:
    """The scores of each head: (K, n, C) among all classes, (K, n, C_u) as if all images were novel."""
    both = viewer.over(images, lambda view: torch.cat(method.both_scores(view), dim=-1), axis=1)
    num_classes = method.task.num_classes
    return both[..., :num_classes], both[..., num_classes:]


def outside(extent: Extent, images: ImageSet, classes: NDArray[np.integer], viewer: Viewer) -> Flags:
    """Which vectors are too far from the centres of their classes (n,); reads PART of them at a time."""
    placed, found = images.to(viewer.device), [np.zeros(0, bool)]
    for rows in torch.split(torch.arange(len(images)), PART):
        vectors = viewer.over(placed, lambda x: x, rows=rows.to(viewer.device)).cpu().numpy()
        found.append(extent.outside(vectors, classes[rows.numpy()]))
    return np.concatenate(found)


class TrainingBank:
    """The whole training set for use between epochs: the `Bank` of a learner's contract."""

    def __init__(self, viewer: Viewer, split: Split) -> None:
        self.viewer, self.split, self.labels = viewer, split, split.labels

    def labelled(self, function: Function, rows: Tensor | None = None) -> Tensor:
        return self.viewer.over(self.split.labelled, function, rows=rows)

    def unlabelled(self, function: Function) -> Tensor:
        return self.viewer.over(self.split.unlabelled, function)


class Evaluator:
    """Scores a method; the only part of a run that holds the truth."""

    def __init__(self, method: Method, viewer: Viewer, unlabelled: ImageSet, truth: Truth) -> None:
        self.method, self.viewer, self.unlabelled, self.truth = method, viewer, unlabelled, truth

    def __call__(self, best_head: int, scores: tuple[Tensor, Tensor] | None = None) -> Report:
        """Task-aware on the novel images of both splits, task-agnostic on the test split.

        If the pile is or may be mixed, also generalised on both. Pass the `scores_of` the unlabelled images
        if they are already computed.
        """
        task, truth = self.method.task, self.truth
        pile = scores or scores_of(self.method, self.viewer, self.unlabelled)
        test = scores_of(self.method, self.viewer, truth.test)
        splits = (pile[0], truth.labels), (test[0], truth.test_labels)
        is_mixed = task.pile == "mixed" or bool((truth.labels < task.num_known).any())
        return summarise(
            best_head,
            train=task_aware(pile[1], truth.labels, task),
            test=task_aware(test[1], truth.test_labels, task),
            agnostic=task_agnostic(test[0], truth.test_labels, task),
            mixed=[generalised(joint, labels, task) for joint, labels in splits] if is_mixed else (),
        )

    def calibration_error(self, ids: NDArray[np.integer], confidence: NDArray[np.floating]) -> float:
        """The error of the confidence (n,) in the classes `ids` (n,) predicted for the unlabelled images."""
        right = told_right(torch.from_numpy(ids), self.truth.labels.cpu(), self.method.task.num_known)
        return calibration_error(torch.from_numpy(confidence), right)
