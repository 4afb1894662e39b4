"""IIC's constraints as a plug-in: terms added to the loss of any method that has joint logits."""

from newfound.core.config import ConstraintConfig
from newfound.core.records import Batch, Losses, Outputs, Task
from newfound.engine.step import Extra
from newfound.losses.constraints import inter_class, intra_class


def extra_loss(constraints: ConstraintConfig, task: Task) -> Extra | None:
    """The weighted terms of a method's `logits` (V, K, B, C); None where both weights are 0."""
    c = constraints
    if not (c.alpha or c.beta):
        return None

    def extra(out: Outputs, batch: Batch) -> Losses:
        logits, N, losses = out["logits"], batch.num_labelled, {}
        if c.alpha:
            losses["constraints.inter"] = -c.alpha * inter_class(logits, N, c.tau, c.form)
        if c.beta:
            losses["constraints.intra"] = c.beta * intra_class(logits, N, task.num_known, c.tau)
        return losses

    return extra


def has_joint_logits(out: Outputs, task: Task) -> bool:
    """Whether a method's outputs are what the constraints need: joint logits that are cosines.

    A method says so by the name. Those of a linear layer are not bounded, so neither would the terms be.
    """
    logits = out.get("logits")
    return logits is not None and logits.ndim == 4 and logits.shape[-1] == task.num_classes
