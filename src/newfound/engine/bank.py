"""Functions of images over whole sets, in evaluation mode."""

from collections.abc import Callable

import torch
from torch import Tensor

from newfound.core.errors import RunError
from newfound.core.learner import Learner, Method
from newfound.data.augment import evaluation_view
from newfound.data.images import ImageSet, Look, Split
from newfound.engine.device import gentler

CHUNK = 1000
Function = Callable[[Tensor], Tensor]


class Viewer:
    """Shows a learner images as evaluation wants them: no augmentation, no gradient, running statistics."""

    def __init__(self, learner: Learner, look: Look, device: torch.device, precision: torch.dtype) -> None:
        self.learner, self.look, self.device, self.precision = learner, look, device, precision

    @torch.no_grad()
    def over(self, images: ImageSet, function: Function, axis: int = 0, rows: Tensor | None = None) -> Tensor:
        """`function` of every image, or of those in `rows`, joined along `axis`, in float32."""
        was_training, look = self.learner.training, self.look
        self.learner.eval()
        out = []
        rows = torch.arange(len(images), device=self.device) if rows is None else rows
        for pixels in images.take_each(torch.split(rows, CHUNK)):
            view = evaluation_view(pixels, look.size, look.kind, look.mean, look.std)
            with torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32):
                out.append(function(view).float())
        self.learner.train(was_training)
        joined = torch.cat(out, dim=axis)
        if joined.isnan().any():
            raise RunError(
                "a network must give numbers; got NaN, so its training has diverged; start again in a new "
                f"folder with {gentler(self.precision)}"
            )
        return joined


def scores_of(method: Method, viewer: Viewer, images: ImageSet) -> tuple[Tensor, Tensor]:
    """What each head says of every image: (K, n, C) among all classes, (K, n, C_u) as if all were novel."""
    both = viewer.over(images, lambda view: torch.cat(method.both_scores(view), dim=-1), axis=1)
    num_classes = method.task.num_classes
    return both[..., :num_classes], both[..., num_classes:]


class TrainingBank:
    """The whole training set as a learner may look at it between epochs (the `Bank` of its contract)."""

    def __init__(self, viewer: Viewer, split: Split) -> None:
        self.viewer, self.split, self.labels = viewer, split, split.labels

    def labelled(self, function: Function, rows: Tensor | None = None) -> Tensor:
        return self.viewer.over(self.split.labelled, function, rows=rows)

    def unlabelled(self, function: Function) -> Tensor:
        return self.viewer.over(self.split.unlabelled, function)
