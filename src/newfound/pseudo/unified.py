"""UNO's one target for both sets."""

import torch
from torch import Tensor

from newfound.core.records import Batch, Task, Views
from newfound.pseudo.sinkhorn import sinkhorn
from newfound.pseudo.targets import joint_targets


@torch.no_grad()
def unified_targets(logits: Tensor, batch: Batch, views: Views, task: Task, eps: float) -> Tensor:
    """(V, K, B, C) → (L, K, B, C) for the L large views: labels where there are any, Sinkhorn elsewhere."""
    novel = logits[: views.large, :, batch.num_labelled :, task.num_known :]
    return joint_targets(batch.labels, sinkhorn(novel, eps), task.num_known)
