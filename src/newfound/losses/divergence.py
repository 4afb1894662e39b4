"""Symmetric KL divergence and cross-entropy averaged over pairs without forming them; IIC's constraints.

1/2 [KL(p || q) + KL(q || p)] = 1/2 <p - q, log p - log q> is bilinear in differences, so its mean over pairs
is a covariance: that of p and log p within a set, plus the product of the differences of means between two.
"""

from typing import Literal

from torch import Tensor

from newfound.losses.prediction import view_mse


def mean_symmetric_kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Log-probabilities (..., N, C) and (..., M, C) → mean divergence over all N x M pairs (...)."""
    p_gap = log_p.exp().mean(-2) - log_q.exp().mean(-2)
    log_gap = log_p.mean(-2) - log_q.mean(-2)
    return ((p_gap * log_gap).sum(-1) + _covariance(log_p, -2) + _covariance(log_q, -2)) / 2


def mean_symmetric_cross_entropy(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Log-probabilities (..., N, C) and (..., M, C) → mean cross-entropy over all N x M pairs (...).

    1/2 [H(p, q) + H(q, p)] is the divergence plus half of each entropy, so it does not reward low entropy.
    """
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


def inter_class(logits: Tensor, N: int, tau: float, form: Literal["full", "cross"] = "full") -> Tensor:
    """IIC, Eq. 4: symmetric KL over all pairs of a labelled and an unlabelled sample, per crop and head.

    Joint logits (V, K, B, C), N labelled rows first; to be maximised, and bounded only because the logits are
    cosines. `cross` keeps the cross-entropies of the pairs and drops their entropies, which KL rewards for
    being low.
    """
    log_p = (logits.float() / tau).log_softmax(-1)
    between = mean_symmetric_kl if form == "full" else mean_symmetric_cross_entropy
    return between(log_p[..., :N, :], log_p[..., N:, :]).mean()


def intra_class(
    logits: Tensor,
    N: int,
    num_known: int,
    tau: float,
    divergence: Literal["skld", "mse"] = "skld",
    norm: Literal["code", "paper"] = "code",
) -> Tensor:
    """IIC, Eq. 7: divergence over all pairs of crops, each set through its own head; logits as above.

    All heads share the known logits, so those of the first head are used.
    """
    known = (logits[:, :1, :N, :num_known].float() / tau).log_softmax(-1)
    novel = (logits[:, :, N:, num_known:].float() / tau).log_softmax(-1)
    if divergence == "mse":
        return view_mse(known.exp()).mean() + view_mse(novel.exp()).mean()
    l_known, l_novel = view_symmetric_kl(known).mean(), view_symmetric_kl(novel).mean()
    if norm == "code":
        # Deviation: as in the authors' code; the paper does not divide by the number of classes.
        l_known, l_novel = l_known / known.shape[-1], l_novel / novel.shape[-1]
    return l_known + l_novel
