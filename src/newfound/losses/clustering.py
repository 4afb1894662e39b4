"""Clustering by soft assignment to centres, sharpened step by step (deep embedded clustering).

Shapes: n samples, K clusters, d dimensions.
"""

import torch
from torch import Tensor


def log_student_t(z: Tensor, centres: Tensor) -> Tensor:
    """Embeddings (..., d) and centres (K, d) → log q (..., K), q_ik ∝ 1 / (1 + ||z_i - mu_k||²).

    From differences, not from products: a sample on its centre then is at distance zero, with a gradient.
    """
    gaps = z.float().unsqueeze(-2) - centres.float()
    return (-gaps.square().sum(-1).log1p()).log_softmax(-1)


def target_distribution(q: Tensor) -> Tensor:
    """Assignments q (n, K) of a whole set → targets p (n, K), p_ik ∝ q_ik² / sum_i q_ik.

    The square prefers what is likely already; the division keeps large clusters from taking all.
    """
    weight = q.square() / q.sum(0)
    return weight / weight.sum(-1, keepdim=True)


def kl_element_mean(log_q: Tensor, p: Tensor) -> Tensor:
    """KL(p || q) of log q and p, both (..., K), mean over samples and clusters.

    Learning rates that were published with it are tuned to a gradient K times smaller than that of the mean
    over samples.
    """
    return (torch.xlogy(p, p) - p * log_q).mean()
