"""How far predictions are from targets that are mixtures."""

from torch import Tensor


def squared_error(logits: Tensor, targets: Tensor, counted: Tensor | None = None) -> Tensor:
    """Logits and targets (n, C), `counted` (n,), by default all → |softmax - target|², their mean, or 0."""
    errors = (logits.float().softmax(-1) - targets).square().sum(-1)
    if counted is None:
        return errors.mean()
    counts = counted.to(errors.dtype)
    return (counts * errors).sum() / counts.sum().clamp(min=1)
