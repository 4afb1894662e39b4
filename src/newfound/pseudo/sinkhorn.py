"""Sinkhorn-Knopp pseudo-labels, balanced over the classes, and UNO's unified targets."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.records import Batch, Task, Views


@torch.no_grad()
def sinkhorn(logits: Tensor, eps: float, iterations: int = 3) -> Tensor:
    """Logits (..., M, C) → class probabilities (..., M, C); each class gets about M / C of the samples.

    Each matrix is balanced on its own. In the log domain the two scalings are log-softmaxes, which cannot
    overflow; the constant factors of the textbook form cancel in the second.
    """
    log_q = logits.float() / eps
    for _ in range(iterations):
        log_q = log_q.log_softmax(-2)  # each class sums to 1 over the samples
        log_q = log_q.log_softmax(-1)  # each sample sums to 1 over the classes
    return log_q.exp()


@torch.no_grad()
def joint_targets(labels: Tensor, q: Tensor, num_known: int) -> Tensor:
    """Labels (N,) and pseudo-labels (L, K, M, C_u) → targets (L, K, N + M, C_l + C_u), zero elsewhere."""
    L, K, _, C_u = q.shape
    classes = torch.arange(num_known + C_u, device=labels.device)
    known = (labels.unsqueeze(-1) == classes).to(q.dtype)
    return torch.cat([known.expand(L, K, -1, -1), F.pad(q, (num_known, 0))], dim=2)


@torch.no_grad()
def unified_targets(logits: Tensor, batch: Batch, views: Views, task: Task, eps: float) -> Tensor:
    """(V, K, B, C) → targets (L, K, B, C) of the L large views: labels for labelled rows, else Sinkhorn.

    In a mixed pile an unlabelled row may be of any class. Labelled rows are then balanced too, so that all
    classes get equal parts of the batch; over-clusters share the parts of their novel classes.
    """
    large = logits[: views.large]
    if task.pile == "mixed":
        return _mixed_targets(large[:, :, batch.num_labelled :], batch.labels, task, eps)
    novel = large[:, :, batch.num_labelled :, task.num_known :]
    return joint_targets(batch.labels, sinkhorn(novel, eps), task.num_known)


def _mixed_targets(logits: Tensor, labels: Tensor, task: Task, eps: float, iterations: int = 3) -> Tensor:
    """Logits (L, K, M, C) of unlabelled rows, labels (N,) → targets (L, K, N + M, C), balanced jointly."""
    L, K, _, C = logits.shape
    classes = torch.arange(C, device=labels.device)
    given = torch.where(labels.unsqueeze(-1) == classes, 0.0, -torch.inf).expand(L, K, -1, -1)
    share = torch.where(classes < task.num_known, 0.0, math.log(task.num_novel / (C - task.num_known)))
    log_q = torch.cat([given, logits.float() / eps], dim=2)
    for _ in range(iterations):
        log_q = (log_q.log_softmax(-2) + share).log_softmax(-1)
    return log_q.exp()
