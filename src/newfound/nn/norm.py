"""BatchNorm whose statistics are those of one view."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.core.errors import UsageError


class ViewBatchNorm(nn.Module):
    """BatchNorm of each view by itself: (B, V, D) → (B, V, D), its statistics in float32.

    Deviation: the running statistics move once a step, by the mean over the views of what `nn.BatchNorm1d`
    would use; the published codes call it for one view after the other, which moves them once a view.
    """

    eps = 1e-5
    momentum = 0.1
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))

    def forward(self, features: Tensor) -> Tensor:
        B, V, D = features.shape
        if not self.training:
            rows = features.reshape(B * V, D)
            out = F.batch_norm(
                rows, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
            return out.view(B, V, D)
        if B < 2:
            raise UsageError(f"a training batch must have at least 2 images; got {B}; raise batch_size")
        # V times D channels for the one fused kernel, which with momentum 1 hands out its statistics.
        mean, var = (torch.zeros_like(self.running_mean).repeat(V) for _ in range(2))
        weight, bias = self.weight.repeat(V), self.bias.repeat(V)
        out = F.batch_norm(features.reshape(B, V * D), mean, var, weight, bias, True, 1.0, self.eps)
        self.running_mean.lerp_(mean.view(V, D).mean(0), self.momentum)
        self.running_var.lerp_(var.view(V, D).mean(0), self.momentum)
        return out.view(B, V, D)
