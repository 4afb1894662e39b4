"""IIC's two constraints on joint logits (V, K, B, C): V views, K heads, B = N + M samples, N labelled first.

Both are bounded only because those logits are cosines.
"""

from typing import Literal

from torch import Tensor

from newfound.losses.consistency import view_mse
from newfound.losses.divergence import mean_symmetric_cross_entropy, mean_symmetric_kl, view_symmetric_kl


def inter_class(logits: Tensor, N: int, tau: float, form: Literal["full", "cross"] = "full") -> Tensor:
    """Eq. 4: symmetric KL over all pairs of a labelled and an unlabelled sample, in a crop and head.

    It is to be large. `cross` keeps the cross-entropies of the pairs and drops their own entropies, which
    KL wants small.
    """
    log_p = (logits / tau).log_softmax(-1)
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
    """Eq. 7: divergence over all pairs of crops, each set through its own head.

    Of the known logits, which all heads share, those of the first head are taken.
    """
    known = (logits[:, :1, :N, :num_known] / tau).log_softmax(-1)
    novel = (logits[:, :, N:, num_known:] / tau).log_softmax(-1)
    if divergence == "mse":
        return view_mse(known.exp()).mean() + view_mse(novel.exp()).mean()
    l_known, l_novel = view_symmetric_kl(known).mean(), view_symmetric_kl(novel).mean()
    if norm == "code":
        # Deviation: as the authors' code, not the paper, which does not divide by the number of classes.
        l_known, l_novel = l_known / known.shape[-1], l_novel / novel.shape[-1]
    return l_known + l_novel
