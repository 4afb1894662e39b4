"""Symmetric Kullback-Leibler divergence and cross-entropy, averaged over pairs without forming them.

1/2 [KL(p || q) + KL(q || p)] = 1/2 <p - q, log p - log q> is bilinear in differences, so its mean over pairs
is a covariance: that of p and log p inside a set, plus the product of the differences of means between two.
"""

from torch import Tensor


def mean_symmetric_kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Log-probabilities (..., N, C) and (..., M, C) → mean divergence over all N x M pairs (...)."""
    log_p, log_q = log_p.float(), log_q.float()
    p_gap = log_p.exp().mean(-2) - log_q.exp().mean(-2)
    log_gap = log_p.mean(-2) - log_q.mean(-2)
    return ((p_gap * log_gap).sum(-1) + _covariance(log_p, -2) + _covariance(log_q, -2)) / 2


def mean_symmetric_cross_entropy(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Log-probabilities (..., N, C) and (..., M, C) → mean cross-entropy over all N x M pairs (...).

    1/2 [H(p, q) + H(q, p)] is the divergence plus half of either entropy, so it does not reward low ones.
    """
    log_p, log_q = log_p.float(), log_q.float()
    cross = log_p.exp().mean(-2) * log_q.mean(-2) + log_q.exp().mean(-2) * log_p.mean(-2)
    return -cross.sum(-1) / 2


def view_symmetric_kl(log_p: Tensor) -> Tensor:
    """Log-probabilities (V, ..., C) → mean divergence over the unordered pairs of views (...)."""
    V = len(log_p)
    return _covariance(log_p.float(), 0) * (V / (V - 1))


def _covariance(log_p: Tensor, dim: int) -> Tensor:
    """The mean over `dim` of <p - mean p, log p - mean log p>; centred, so nothing cancels."""
    p = log_p.exp()
    product = (p - p.mean(dim, keepdim=True)) * (log_p - log_p.mean(dim, keepdim=True))
    return product.sum(-1, keepdim=True).mean(dim).squeeze(-1)
