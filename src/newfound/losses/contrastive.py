"""Contrastive losses: a sample must be more like its positives than like anything else it is compared with.

All rows are of unit length, so that a product of two is their cosine.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def group_contrast(z: Tensor, groups: Tensor, tau: float) -> Tensor:
    """Rows (n, D) and their groups (n,) → cross-entropy of a row's group among all other rows, their mean.

    Every group must have two rows: the positives of a row are the others of its group, equally weighted.
    """
    cosines = z @ z.mT / tau
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    positive = (groups[:, None] == groups) & ~itself
    attracted = (cosines * positive).sum(1) / positive.sum(1)
    return (cosines.masked_fill(itself, -torch.inf).logsumexp(1) - attracted).mean()


def class_contrast(
    q: Tensor, k: Tensor, memory: Tensor, labels: Tensor, memory_labels: Tensor, tau: float
) -> Tensor:
    """Two views (N, D) of labelled samples, `memory` (K, D) and the labels of both → mean cross-entropy.

    Positives, equally weighted, are the other view and all that is remembered of the same class.
    """
    own, remembered = _similarities(q, k, memory, tau)
    same = labels[:, None] == memory_labels
    attracted = (own + (remembered * same).sum(1)) / (1 + same.sum(1))
    return (torch.cat([own[:, None], remembered], 1).logsumexp(1) - attracted).mean()


def neighbour_contrast(
    q: Tensor, k: Tensor, memory: Tensor, negatives: Tensor, *, neighbours: int, own_share: float, tau: float
) -> Tensor:
    """Two views (M, D) of unlabelled samples and `memory` (K, D) → mean cross-entropy.

    Positives are the other view, of weight `own_share`, and the nearest remembered rows, which share the
    rest. `negatives` (M, n) are cosines of q with rows to be further from; n may be 0, and -inf is none.
    """
    own, remembered = _similarities(q, k, memory, tau)
    nearest = remembered.topk(neighbours, dim=1).values.mean(1)
    everything = torch.cat([own[:, None], remembered, negatives / tau], 1)
    return (everything.logsumexp(1) - own_share * own - (1 - own_share) * nearest).mean()


def _similarities(q: Tensor, k: Tensor, memory: Tensor, tau: float) -> tuple[Tensor, Tensor]:
    """(n,) with the other view and (n, K) with what is remembered."""
    return (q * k).sum(1) / tau, q @ memory.mT / tau


def mixtures(unlabelled: Tensor, labelled: Tensor, partners: Tensor) -> Tensor:
    """Rows (K, D), rows (L, D) and `partners` (R, K) among the latter → (2R, K, D), of unit length.

    Each row is mixed with each of its partners 2 : 1 and 1 : 2: of no class, yet near to novel ones.
    """
    mates = labelled[partners]
    return F.normalize(torch.cat([2 * unlabelled + mates, unlabelled + 2 * mates]), dim=-1)


def hardest_mixtures(q: Tensor, memory: Tensor, mixed: Tensor, farthest: int, count: int) -> Tensor:
    """Samples (M, D), rows (K, D) and their mixtures (R, K, D) → cosines with the nearest (M, count).

    A sample sees mixtures of the `farthest` rows from it alone, which are hardly of its class.
    """
    far = (q @ memory.mT).topk(farthest, dim=1, largest=False).indices
    cosines = (q @ mixed.flatten(0, 1).mT).view(len(q), *mixed.shape[:2])
    of_far = cosines.gather(2, far[:, None].expand(-1, len(mixed), -1))
    return of_far.flatten(1).topk(count, dim=1).values
