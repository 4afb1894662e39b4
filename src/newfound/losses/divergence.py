"""Symmetric KL divergence and cross-entropy averaged over pairs without forming them; IIC's constraints.

1/2 [KL(p || q) + KL(q || p)] = 1/2 <p - q, log p - log q> is bilinear in differences. So its mean over pairs
within a set is the covariance of p and log p; between two sets, the product of the differences between their
means is added.
"""

from typing import Literal

from torch import Tensor

from newfound.losses.prediction import view_mse


def mean_symmetric_kl(log_p: Tensor, log_q: Tensor, weights: Tensor | None = None) -> Tensor:
    """Log-probabilities (..., N, C) and (..., M, C) → mean divergence over all N x M pairs (...).

    With `weights` (..., M), each divergence is multiplied by the weight of its second sample.
    """
    p_gap = log_p.exp().mean(-2) - _mean(log_q.exp(), weights)
    log_gap = log_p.mean(-2) - _mean(log_q, weights)
    spread = _covariance(log_p, -2) + _covariance(log_q, -2, weights)
    return ((p_gap * log_gap).sum(-1) + spread) / 2 * (1 if weights is None else weights.mean(-1))


def mean_symmetric_cross_entropy(log_p: Tensor, log_q: Tensor, weights: Tensor | None = None) -> Tensor:
    """Log-probabilities (..., N, C) and (..., M, C) → mean cross-entropy over all N x M pairs (...).

    1/2 [H(p, q) + H(q, p)] is the divergence plus half of each entropy, so it does not reward low entropy.
    `weights` are those of `mean_symmetric_kl`.
    """
    cross = log_p.exp().mean(-2) * _mean(log_q, weights) + _mean(log_q.exp(), weights) * log_p.mean(-2)
    return -cross.sum(-1) / 2 * (1 if weights is None else weights.mean(-1))


def view_symmetric_kl(log_p: Tensor) -> Tensor:
    """Log-probabilities (V, ..., C) → mean divergence over the unordered pairs of views (...)."""
    V = len(log_p)
    return _covariance(log_p.float(), 0) * (V / (V - 1))


def _covariance(log_p: Tensor, dim: int, weights: Tensor | None = None) -> Tensor:
    """The mean over `dim` of <p - mean p, log p - mean log p>; centred, so nothing cancels."""
    p = log_p.exp()
    gaps = [each - _mean(each, weights, dim).unsqueeze(dim) for each in (p, log_p)]
    return _mean((gaps[0] * gaps[1]).sum(-1, keepdim=True), weights, dim).squeeze(-1)


def _mean(x: Tensor, weights: Tensor | None, dim: int = -2) -> Tensor:
    """The mean (..., M, C) → (..., C), with `weights` (..., M) if given."""
    if weights is None:
        return x.mean(dim)
    shares = weights / weights.sum(-1, keepdim=True).clamp(min=1e-12)
    return (x * shares.unsqueeze(-1)).sum(dim)


def inter_class(
    logits: Tensor, N: int, tau: float, form: Literal["full", "cross"] = "full", num_known: int | None = None
) -> Tensor:
    """IIC, Eq. 4: symmetric KL over all pairs of a labelled and an unlabelled sample, per crop and head.

    Joint logits (V, K, B, C), N labelled rows first; to be maximised, and bounded only because the logits are
    cosines. `cross` keeps the cross-entropies of the pairs and drops their entropies, which KL rewards for
    being low. With `num_known`, for a mixed pile, a pair has the weight of its unlabelled sample's predicted
    probability of being novel: a sample of a known class need not differ from the known classes.
    """
    log_p = (logits.float() / tau).log_softmax(-1)
    between = mean_symmetric_kl if form == "full" else mean_symmetric_cross_entropy
    known, others = log_p[..., :N, :], log_p[..., N:, :]
    weights = None if num_known is None else others[..., num_known:].detach().exp().sum(-1)
    return between(known, others, weights).mean()


def intra_class(
    logits: Tensor,
    N: int,
    num_known: int,
    tau: float,
    divergence: Literal["skld", "mse"] = "skld",
    norm: Literal["code", "paper"] = "code",
    mixed: bool = False,
) -> Tensor:
    """IIC, Eq. 7: divergence over all pairs of crops, each set with its own head; logits as in `inter_class`.

    All heads share the known logits, so those of the first head are used. For the unlabelled samples of a
    mixed pile, the logits of all classes are used.
    """
    known = (logits[:, :1, :N, :num_known].float() / tau).log_softmax(-1)
    novel = (logits[:, :, N:, 0 if mixed else num_known :].float() / tau).log_softmax(-1)
    if divergence == "mse":
        return view_mse(known.exp()).mean() + view_mse(novel.exp()).mean()
    l_known, l_novel = view_symmetric_kl(known).mean(), view_symmetric_kl(novel).mean()
    if norm == "code":
        # Deviation: as in the authors' code; the paper does not divide by the number of classes.
        l_known, l_novel = l_known / known.shape[-1], l_novel / novel.shape[-1]
    return l_known + l_novel
