"""BatchNorm: of feature maps, fast where it is compiled, and of projected features, each view by itself."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.core.errors import UsageError
from newfound.nn.kept import kept


class MapBatchNorm(nn.BatchNorm2d):
    """`nn.BatchNorm2d` and, where asked, a sum and ReLU; compiled training moves little memory.

    Eager code has a fused kernel and keeps it. The compiler turns a variance into Welford's recurrence, a
    division for each pixel, and its gradient of ReLU reads the output once more: see `_Normalise`.
    """

    def forward(self, maps: Tensor, relu: bool = False, plus: Tensor | None = None) -> Tensor:
        if not (self.training and torch.compiler.is_compiling()):
            out = super().forward(maps)
            if plus is not None:
                out = out + plus
            return F.relu(out, inplace=True) if relu else out
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        out, mean, var = _Normalise.apply(maps, plus, self.weight, self.bias, self.eps, relu)  # type: ignore[no-untyped-call]
        number = maps.numel() // maps.shape[1]
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var * (number / max(number - 1, 1)), self.momentum)
        normalised: Tensor = out
        return normalised


class _Normalise(torch.autograd.Function):
    """Maps (B, C, h, w), and others to add → normalised maps, mean and variance (C,), from two plain sums.

    The gradient finds ReLU's mask from the maps that it reads anyway, so two tensors are read, not three;
    only where maps were added it takes the output, which the next convolution keeps in any case.
    """

    @staticmethod
    def forward(
        ctx: Any, maps: Tensor, plus: Tensor | None, weight: Tensor, bias: Tensor, eps: float, relu: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        x = maps.float()
        mean = x.mean((0, 2, 3))
        var = (x.square().mean((0, 2, 3)) - mean.square()).clamp(min=0)
        rstd = (var + eps).rsqrt()
        scale = kept(weight * rstd)
        out = _affine(x, scale, kept(bias - mean * scale))
        if plus is not None:
            out = out + plus.float()
        # A copy, since torch 2.11 has no gradient for what `to` gives back as it is, in float32.
        out = (out.relu() if relu else out).to(maps.dtype, copy=True)
        ctx.save_for_backward(maps, None if plus is None else out, weight, bias, mean, rstd)
        ctx.relu, ctx.added = relu, plus is not None
        ctx.mark_non_differentiable(mean, var)
        return out, mean, var

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        maps, out, weight, bias, mean, rstd = ctx.saved_tensors
        x, scale = maps.float(), weight * rstd
        if ctx.relu:
            passed = out > 0 if ctx.added else _affine(x, scale, bias - mean * scale) > 0
            gradient = torch.where(passed, gradient, 0.0)
        if ctx.added:  # used below, and by all that the added maps come from
            gradient = kept(gradient)
        g = gradient.float()
        number = maps.numel() // maps.shape[1]
        to_bias = g.sum((0, 2, 3))
        to_weight = (g * (x - mean[:, None, None])).sum((0, 2, 3)) * rstd
        # dL/dx = scale (g - mean g - x_hat mean(g x_hat)), written as one line in x for each channel.
        # Triton 3.6 fails to compile these coefficients as `shift = a * to_bias - slope * mean`.
        part, tilt = -scale / number, to_weight * rstd
        through = _affine(x, kept(part * tilt), kept(part * (to_bias - tilt * mean)))
        to_maps = (scale[:, None, None] * g + through).to(maps.dtype)
        return to_maps, gradient if ctx.added else None, to_weight, to_bias, None, None


def _affine(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """x times a scale plus a shift of each channel."""
    return x * scale[:, None, None] + shift[:, None, None]


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
