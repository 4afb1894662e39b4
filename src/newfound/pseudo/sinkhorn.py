"""Sinkhorn-Knopp pseudo-labels, balanced over the classes, and UNO's unified targets.

The pseudo-labels q (M, C) of logits l maximise <q, l> + eps * entropy(q) where every sample sums to 1
and every class to M / C. With learned class sizes (our extension) a penalty replaces the second constraint:
lambda times the Kullback-Leibler divergence of the sizes from M / C. Then a class is scaled by the power
lambda / (lambda + eps) of what would make it equal (Chizat et al., Mathematics of Computation 2018), and the
scaling starts with the samples.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.records import Batch, Task, Views

Prior = Literal["equal", "learned"]
"""The sizes of classes in pseudo-labels."""
FIRM = 0.75
"""That power. With tau = 2 eps, predictions with class sizes s ask for s^2 and get s^(2 - 2 power), so below
a half the sizes would drift apart without any reason in the images. docs/lab-notes.md compares values."""
ITERATIONS = 3


@torch.no_grad()
def sinkhorn(logits: Tensor, eps: float, prior: Prior = "equal", iterations: int = ITERATIONS) -> Tensor:
    """Logits (..., M, C) → class probabilities (..., M, C); each class gets about M / C of the samples.

    Each matrix is balanced on its own. Learned sizes are nearer to those of the predictions.
    """
    return _scaled(logits.float() / eps, 0.0, prior, iterations)


def _scaled(log_q: Tensor, share: Tensor | float, prior: Prior, iterations: int) -> Tensor:
    """Scale classes to their shares (C,) in logarithms, up to a constant, and samples to 1, in turn.

    In the log domain the scalings are log-softmaxes, which cannot overflow; the constant factors of the
    textbook form cancel.
    """
    if prior == "equal":
        for _ in range(iterations):
            log_q = (log_q.log_softmax(-2) + share).log_softmax(-1)
        return log_q.exp()
    log_u = -log_q.logsumexp(-1, keepdim=True)
    for _ in range(iterations):
        log_v = FIRM * (share - (log_q + log_u).logsumexp(-2, keepdim=True))
        log_u = -(log_q + log_v).logsumexp(-1, keepdim=True)
    return (log_q + log_v).softmax(-1)


@torch.no_grad()
def joint_targets(labels: Tensor, q: Tensor, num_known: int) -> Tensor:
    """Labels (N,) and pseudo-labels (L, K, M, C_u) → targets (L, K, N + M, C_l + C_u), zero elsewhere."""
    L, K, _, C_u = q.shape
    classes = torch.arange(num_known + C_u, device=labels.device)
    known = (labels.unsqueeze(-1) == classes).to(q.dtype)
    return torch.cat([known.expand(L, K, -1, -1), F.pad(q, (num_known, 0))], dim=2)


@torch.no_grad()
def unified_targets(
    logits: Tensor, batch: Batch, views: Views, task: Task, eps: float, prior: Prior = "equal"
) -> Tensor:
    """(V, K, B, C) → targets (L, K, B, C) of the L large views: labels for labelled rows, else Sinkhorn.

    In a mixed pile an unlabelled row may be of any class. Labelled rows are then balanced too, so that all
    classes get equal parts of the batch; over-clusters share the parts of their novel classes.
    """
    large = logits[: views.large]
    if task.pile == "mixed":
        return _mixed_targets(large[:, :, batch.num_labelled :], batch.labels, task, eps, prior)
    novel = large[:, :, batch.num_labelled :, task.num_known :]
    return joint_targets(batch.labels, sinkhorn(novel, eps, prior), task.num_known)


def _mixed_targets(logits: Tensor, labels: Tensor, task: Task, eps: float, prior: Prior) -> Tensor:
    """Logits (L, K, M, C) of unlabelled rows, labels (N,) → targets (L, K, N + M, C), balanced jointly."""
    L, K, _, C = logits.shape
    classes = torch.arange(C, device=labels.device)
    given = torch.where(labels.unsqueeze(-1) == classes, 0.0, -torch.inf).expand(L, K, -1, -1)
    share = torch.where(classes < task.num_known, 0.0, math.log(task.num_novel / (C - task.num_known)))
    return _scaled(torch.cat([given, logits.float() / eps], dim=2), share, prior, ITERATIONS)
