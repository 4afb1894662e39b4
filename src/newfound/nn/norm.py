"""BatchNorm for feature maps, fast when compiled, and for projected features, per view."""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.core import dist
from newfound.core.encoder import Encoder, at_least_float32
from newfound.core.errors import UsageError


def kept(x: Tensor) -> Tensor:
    """A copy of x that compiled code keeps in memory.

    Otherwise the compiler recomputes it in every kernel that reads it, and in the backward pass even from a
    buffer that has since changed.
    """
    if not torch.compiler.is_compiling():
        return x.clone()
    from torch._inductor import test_operators  # slow to import

    alone: Tensor = test_operators.realize(x)
    return alone


class MapBatchNorm(nn.BatchNorm2d):
    """`nn.BatchNorm2d` with optional sum and ReLU; compiled training moves little memory.

    Eager mode uses PyTorch's fused kernel. The compiler would turn the variance into Welford's recurrence,
    with a division per pixel, and its gradient of ReLU would read the output again: see `_Normalise`.
    """

    def forward(self, maps: Tensor, relu: bool = False, plus: Tensor | None = None) -> Tensor:
        if dist.is_sharing() or not (self.training and torch.compiler.is_compiling()):
            out = shared_batch_norm(self, maps)
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


def share_statistics(network: nn.Module, encoder: Encoder) -> None:
    """Make every BatchNorm that sees one process's share of a batch use the statistics of all shares.

    Those are the layers of the encoder, and of feature maps anywhere. All others see the whole batch.
    """
    plain, own = nn.modules.batchnorm._BatchNorm, set(encoder.modules())
    for layer in network.modules():
        if not isinstance(layer, plain) or isinstance(layer, MapBatchNorm):
            continue
        if layer not in own and not isinstance(layer, nn.BatchNorm2d):
            continue
        if type(layer).forward is not plain.forward:
            raise UsageError(f"{type(layer).__name__} cannot be trained by several processes; use devices=1.")
        layer.__dict__["forward"] = partial(shared_batch_norm, layer)


def shared_batch_norm(layer: nn.modules.batchnorm._BatchNorm, x: Tensor) -> Tensor:
    """Normalise (b, C, ...) with the statistics of all processes, as `nn.SyncBatchNorm` does on GPUs only.

    The overall mean is the mean of their means; the overall variance is the variance of their means plus the
    mean of their variances, each weighted by its number of values.
    """
    if not (dist.is_sharing() and layer.training):
        return nn.modules.batchnorm._BatchNorm.forward(layer, x)
    wide, C = at_least_float32(x), x.shape[1]
    var, mean = torch.var_mean(wide, [0, *range(2, x.ndim)], correction=0)
    number = mean.new_full((1,), x.numel() // C)
    each = dist.gather(torch.cat([mean, var, number])[None], 0, dist.world())
    means, variances, numbers = each[:, :C], each[:, C:-1], each[:, -1:]
    total = numbers.sum()
    mean = (numbers * means).sum(0) / total
    var = (numbers * (variances + (means - mean).square())).sum(0) / total
    if layer.running_mean is not None:
        assert layer.running_var is not None
        assert layer.num_batches_tracked is not None
        assert layer.momentum is not None
        with torch.no_grad():
            layer.num_batches_tracked.add_(1)
            layer.running_mean.lerp_(mean, layer.momentum)
            layer.running_var.lerp_(var * (total / (total - 1).clamp(min=1)), layer.momentum)
    scale = (var + layer.eps).rsqrt()
    centred, scale, shift = (
        each.view(C, *[1] * (x.ndim - 2)) for each in (mean, scale * layer.weight, layer.bias)
    )
    return ((wide - centred) * scale + shift).to(x.dtype)


class _Normalise(torch.autograd.Function):
    """Maps (B, C, h, w), and optional maps to add → normalised maps, mean and variance (C,), from two sums.

    The gradient derives ReLU's mask from the maps it reads anyway, so it reads two tensors, not three. Only
    if maps were added does it read the output, which the next convolution keeps anyway.
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
        # A copy: torch 2.11 has no gradient where `to` returns its input, as in float32.
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
        if ctx.added:  # used below and by the source of the added maps
            gradient = kept(gradient)
        g = gradient.float()
        number = maps.numel() // maps.shape[1]
        to_bias = g.sum((0, 2, 3))
        to_weight = (g * (x - mean[:, None, None])).sum((0, 2, 3)) * rstd
        # dL/dx = scale (g - mean g - x_hat mean(g x_hat)), which is affine in x per channel.
        # Triton 3.6 fails to compile these coefficients as `shift = a * to_bias - slope * mean`.
        part, tilt = -scale / number, to_weight * rstd
        through = _affine(x, kept(part * tilt), kept(part * (to_bias - tilt * mean)))
        to_maps = (scale[:, None, None] * g + through).to(maps.dtype)
        return to_maps, gradient if ctx.added else None, to_weight, to_bias, None, None


def _affine(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """x times a scale plus a shift, per channel."""
    return x * scale[:, None, None] + shift[:, None, None]


class ViewBatchNorm(nn.Module):
    """BatchNorm per view: (B, V, D) → (B, V, D), with statistics in float32.

    Deviation: the running statistics are updated once per step with the mean over the views; the published
    implementations call `nn.BatchNorm1d` view by view, which updates them once per view.
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
        # V * D channels in one fused kernel; with momentum 1 it returns the batch statistics.
        mean, var = (torch.zeros_like(self.running_mean).repeat(V) for _ in range(2))
        weight, bias = self.weight.repeat(V), self.bias.repeat(V)
        out = F.batch_norm(features.reshape(B, V * D), mean, var, weight, bias, True, 1.0, self.eps)
        self.running_mean.lerp_(mean.view(V, D).mean(0), self.momentum)
        self.running_var.lerp_(var.view(V, D).mean(0), self.momentum)
        return out.view(B, V, D)
