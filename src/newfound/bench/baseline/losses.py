"""IIC's loss (cards 1.3 and 1.4) in loops over views and heads.

Shapes: B samples in any order, of which a (B,) mask says which are labelled; C = C_l + C_u classes.
"""

from dataclasses import dataclass
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.bench.baseline.network import Logits


@dataclass(frozen=True)
class Weights:
    """The numbers of the objective."""

    num_known: int
    num_large: int
    alpha: float
    beta: float
    tau: float
    eps: float


def iic_loss(logits: Logits, over: Logits, labels: Tensor, w: Weights) -> Tensor:
    """(L_CE + L_over) / 2 - alpha L_inter + beta L_intra; labels (B,) are -1 where there is none."""
    base = (swapped(logits, labels, w) + swapped(over, labels, w)) / 2
    labelled = labels >= 0
    return base - w.alpha * inter(logits, labelled, w) + w.beta * intra(logits, labelled, w)


@torch.no_grad()
def sinkhorn(logits: Tensor, eps: float) -> Tensor:
    """Sinkhorn-Knopp in its textbook form: (M, K) → soft targets (M, K)."""
    Q = torch.exp(logits / eps).t()
    Q /= Q.sum()
    K, M = Q.shape
    for _ in range(3):
        Q /= Q.sum(dim=1, keepdim=True) * K
        Q /= Q.sum(dim=0, keepdim=True) * M
    return (Q * M).t()


@torch.no_grad()
def targets(logits: Tensor, labels: Tensor, w: Weights) -> Tensor:
    """(B, C), (B,) → (B, C): [onehot, 0] for the labelled, [0, q] for the others."""
    labelled = labels >= 0
    out = torch.zeros_like(logits, dtype=torch.float32)
    out[labelled] = F.one_hot(labels[labelled], logits.shape[1]).float()
    out[~labelled, w.num_known :] = sinkhorn(logits[~labelled, w.num_known :], w.eps).float()
    return out


def swapped(logits: Logits, labels: Tensor, w: Weights) -> Tensor:
    """What a large view is believed to show must be predicted from every other view."""
    losses = []
    for v in range(w.num_large):
        for k in range(len(logits[v])):
            target = targets(logits[v][k], labels, w)
            for other in range(len(logits)):
                if other != v:
                    log_p = F.log_softmax(logits[other][k] / w.tau, dim=1)
                    losses.append(-(target * log_p).sum(dim=1).mean())
    return torch.stack(losses).mean()


def inter(logits: Logits, labelled: Tensor, w: Weights) -> Tensor:
    """Eq. 4 in every view and head."""
    losses = []
    for view in logits:
        for head in view:
            log_p = F.log_softmax(head / w.tau, dim=1)
            losses.append(inter_by_matrix_product(log_p[labelled], log_p[~labelled]))
    return torch.stack(losses).mean()


def inter_by_matrix_product(log_p: Tensor, log_q: Tensor) -> Tensor:
    """The paper's way: (N, C), (M, C) → mean symmetric KL, from two N x M matrices of cross terms."""
    p, q = log_p.exp(), log_q.exp()
    p_to_q = (p * log_p).sum(dim=1)[:, None] - p @ log_q.t()
    q_to_p = (q * log_q).sum(dim=1)[None, :] - log_p @ q.t()
    return (0.5 * (p_to_q + q_to_p)).mean()


def intra(logits: Logits, labelled: Tensor, w: Weights) -> Tensor:
    """Eq. 7 for every pair of views and head, each set through its own logits, divided by their number."""
    losses = []
    for one, other in combinations(logits, 2):
        for a, b in zip(one, other, strict=True):
            known = symmetric_kl(a[labelled, : w.num_known], b[labelled, : w.num_known], w.tau)
            novel = symmetric_kl(a[~labelled, w.num_known :], b[~labelled, w.num_known :], w.tau)
            losses.append(known + novel)
    return torch.stack(losses).mean()


def symmetric_kl(a: Tensor, b: Tensor, tau: float) -> Tensor:
    """Logits (n, C) twice → mean over the rows, divided by C."""
    log_p, log_q = F.log_softmax(a / tau, dim=1), F.log_softmax(b / tau, dim=1)
    forth = F.kl_div(log_q, log_p, log_target=True, reduction="batchmean")
    back = F.kl_div(log_p, log_q, log_target=True, reduction="batchmean")
    return (forth + back) / 2 / a.shape[1]
