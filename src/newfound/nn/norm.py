"""BatchNorm: of feature maps, fast where it is compiled, and of projected features, each view by itself."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.core.errors import UsageError


class MapBatchNorm(nn.BatchNorm2d):
    """`nn.BatchNorm2d`, in compiled training from two plain sums in float32.

    The compiler turns a variance into Welford's recurrence, a division for each pixel, where one pass that
    sums x and x² is bound by memory alone. Eager code has a fused kernel and keeps it.
    """

    def forward(self, maps: Tensor) -> Tensor:
        if not (self.training and torch.compiler.is_compiling()):
            return super().forward(maps)
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        x = maps.float()
        mean, square = x.mean((0, 2, 3)), x.square().mean((0, 2, 3))
        var = (square - mean.square()).clamp(min=0)
        number = maps.numel() // maps.shape[1]
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var * (number / max(number - 1, 1)), self.momentum)
        scale = self.weight * (var + self.eps).rsqrt()
        shift = self.bias - mean * scale
        return (x * scale[:, None, None] + shift[:, None, None]).to(maps.dtype)


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
