"""BatchNorm of maps is the same whether it is compiled or not."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from newfound.core.encoder import Encoder
from newfound.core.errors import UsageError
from newfound.nn.norm import MapBatchNorm, share_statistics


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    """The compiler refuses to compile one function too many times."""
    torch.compiler.reset()


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiled_training_is_the_fused_kernel_s(dtype: torch.dtype, added: bool, relu: bool) -> None:
    torch.manual_seed(0)
    plain = MapBatchNorm(5)
    with torch.no_grad():
        plain.weight.uniform_(0.5, 2)
        plain.bias.normal_()
    traced = deepcopy(plain)
    compiled = torch.compile(traced, backend="eager", fullgraph=True)
    maps = (3 + 2 * torch.randn(4, 5, 6, 7)).to(dtype)
    other, weights = torch.randn(4, 5, 6, 7).to(dtype), torch.randn(4, 5, 6, 7)
    with torch.no_grad():  # which side of zero a sum is on depends on rounding where it is near
        sums = deepcopy(plain)(maps.float()) + other.float()
    weights = weights * (sums.abs() > 0.1)
    gradients = []
    for norm in (plain, compiled):
        x, plus = maps.clone().requires_grad_(), other.clone().requires_grad_()
        for _ in range(2):
            out = norm(x, relu, plus if added else None)
        assert out.dtype == dtype
        (out.float() * weights).sum().backward()
        assert x.grad is not None
        assert (plus.grad is not None) == added
        gradients.append(
            (out.float(), x.grad.float(), *([plus.grad.float()] if plus.grad is not None else []))
        )
    rtol, atol = (1e-4, 1e-5) if dtype == torch.float32 else (2e-2, 2e-2)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol)
    for key, value in plain.state_dict().items():
        torch.testing.assert_close(value, traced.state_dict()[key], rtol=1e-4, atol=1e-5)
    assert plain.weight.grad is not None
    assert traced.weight.grad is not None
    torch.testing.assert_close(plain.weight.grad, traced.weight.grad, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(plain.bias.grad, traced.bias.grad, rtol=2e-2, atol=2e-2)


def test_evaluation_uses_the_running_statistics_either_way() -> None:
    norm = MapBatchNorm(3).eval()
    compiled = torch.compile(norm, backend="eager", fullgraph=True)
    maps = torch.randn(2, 3, 4, 4)
    assert torch.equal(norm(maps), compiled(maps))
    assert int(norm.num_batches_tracked or 0) == 0


def test_a_norm_with_its_own_forward_is_refused_by_several_processes() -> None:
    class Activated(nn.BatchNorm2d):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).relu()

    encoder = Encoder.of(nn.Sequential(nn.Conv2d(3, 4, 1), Activated(4)), 4)
    with pytest.raises(UsageError, match="Activated cannot be trained by several processes; use devices=1"):
        share_statistics(encoder, encoder)
    ours = Encoder.of(nn.Sequential(MapBatchNorm(4), nn.BatchNorm2d(4)), 4)
    share_statistics(ours, ours)
