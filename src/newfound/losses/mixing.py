"""How far predictions are from targets that are mixtures."""

from torch import Tensor


def squared_error(logits: Tensor, targets: Tensor, counted: Tensor) -> Tensor:
    """Logits and targets (n, C), `counted` (n,) → |softmax - target|², mean over those that count, or 0."""
    errors = (logits.float().softmax(-1) - targets).square().sum(-1)
    counts = counted.to(errors.dtype)
    return (counts * errors).sum() / counts.sum().clamp(min=1)
