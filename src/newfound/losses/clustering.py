"""Clustering by soft assignment to centres and self-sharpened targets (deep embedded clustering).

Shapes: n samples, K clusters, d dimensions.
"""

import torch
from torch import Tensor


def log_student_t(z: Tensor, centres: Tensor) -> Tensor:
    """Embeddings (..., d) and centres (K, d) → log q (..., K), q_ik ∝ 1 / (1 + ||z_i - mu_k||²).

    Computed from differences, not products, so that a sample on its centre is at distance zero and has a
    finite gradient.
    """
    gaps = z.float().unsqueeze(-2) - centres.float()
    return (-gaps.square().sum(-1).log1p()).log_softmax(-1)


def target_distribution(q: Tensor) -> Tensor:
    """Assignments q (n, K) of a whole set → targets p (n, K), p_ik ∝ q_ik² / sum_i q_ik.

    The square sharpens the assignments; the division keeps large clusters from absorbing the others.
    """
    weight = q.square() / q.sum(0)
    return weight / weight.sum(-1, keepdim=True)


def kl_element_mean(log_q: Tensor, p: Tensor) -> Tensor:
    """KL(p || q) of log q and p, both (..., K), averaged over samples and clusters.

    Published learning rates are tuned to this mean, whose gradient is K times smaller than that of the mean
    over samples.
    """
    return (torch.xlogy(p, p) - p * log_q).mean()
