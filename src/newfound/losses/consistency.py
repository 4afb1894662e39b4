"""Consistency: the views of an image must be predicted alike."""

from torch import Tensor


def view_mse(p: Tensor) -> Tensor:
    """Predictions (V, ..., C) → squared error, mean over classes and unordered pairs of views (...).

    For two views it is `F.mse_loss` of each sample; over more, the mean over pairs is twice the variance.
    """
    return 2 * p.float().var(0).mean(-1)
