"""The ResNets against their definition in terms of torchvision's state dict."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.nn.encoders import build_encoder
from newfound.nn.encoders.resnet import PooledShortcut


def reference(weights: dict[str, Tensor], images: Tensor) -> Tensor:
    """A ResNet in evaluation mode, read off the keys and shapes of its weights."""

    def conv(x: Tensor, name: str, stride: int = 1) -> Tensor:
        weight = weights[f"{name}.weight"]
        return F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)

    def norm(x: Tensor, name: str) -> Tensor:
        mean, var, scale, shift = (
            weights[f"{name}.{part}"].view(-1, 1, 1)
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (var + 1e-5).sqrt() * scale + shift

    large = weights["conv1.weight"].shape[-1] == 7
    x = norm(conv(images, "conv1", 2 if large else 1), "bn1").relu()
    if large:
        x = F.max_pool2d(x, 3, 2, 1)
    for layer in range(1, 5):
        block = 0
        while f"layer{layer}.{block}.conv1.weight" in weights:
            name = f"layer{layer}.{block}"
            bottleneck = f"{name}.conv3.weight" in weights
            stride = 2 if layer > 1 and block == 0 else 1
            out = norm(conv(x, f"{name}.conv1", 1 if bottleneck else stride), f"{name}.bn1").relu()
            out = norm(conv(out, f"{name}.conv2", stride if bottleneck else 1), f"{name}.bn2")
            if bottleneck:
                out = norm(conv(out.relu(), f"{name}.conv3"), f"{name}.bn3")
            if f"{name}.downsample.0.weight" in weights:
                x = norm(conv(x, f"{name}.downsample.0", stride), f"{name}.downsample.1")
            elif x.shape != out.shape:  # the shortcut without parameters
                pooled = (x[..., ::2, ::2] + x[..., 1::2, ::2] + x[..., ::2, 1::2] + x[..., 1::2, 1::2]) / 4
                x = torch.cat([pooled, torch.zeros_like(out[:, pooled.shape[1] :])], dim=1)
            x = (x + out).relu()
            block += 1
    return x.mean(dim=(2, 3))


def randomise_norms(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.7, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.2)
            nn.init.normal_(module.bias, 0, 0.1)


@pytest.mark.parametrize(
    ("name", "size"),
    [("resnet18-cifar", 16), ("resnet18", 64), ("resnet50", 32), ("rs-resnet18", 16)],
)
@torch.no_grad()
def test_forward_is_the_definition(name: str, size: int) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(name).double().eval()
    randomise_norms(encoder)
    images = torch.randn(2, 3, size, size, dtype=torch.float64)
    torch.testing.assert_close(encoder(images), reference(encoder.state_dict(), images))


@pytest.mark.parametrize(
    ("name", "parameters", "tensors"),
    [
        # torchvision's published counts less those of fc
        ("resnet18", 11_689_512 - 513_000, 120),
        ("resnet34", 21_797_672 - 513_000, 216),
        ("resnet50", 25_557_032 - 2_049_000, 318),
        ("resnet34-cifar", 21_797_672 - 513_000 - 3 * 64 * (49 - 9), 216),
        ("rs-resnet18", 11_689_512 - 513_000 - 3 * 64 * (49 - 9) - 172_032 - 1_792, 102),
    ],
)
def test_size(name: str, parameters: int, tensors: int) -> None:
    with torch.device("meta"):
        encoder = build_encoder(name)
    assert sum(p.numel() for p in encoder.parameters()) == parameters
    assert len(encoder.state_dict()) == tensors


def test_names_are_those_of_torchvision() -> None:
    with torch.device("meta"):
        state = build_encoder("resnet50").state_dict()
    assert state["conv1.weight"].shape == (64, 3, 7, 7)
    assert state["layer1.0.downsample.0.weight"].shape == (256, 64, 1, 1)
    assert state["layer2.0.conv2.weight"].shape == (128, 128, 3, 3)
    assert state["layer4.2.conv3.weight"].shape == (2048, 512, 1, 1)
    assert state["layer4.0.downsample.1.running_mean"].shape == (2048,)


def test_initial_values() -> None:
    torch.manual_seed(0)
    for name, module in build_encoder("resnet18-cifar").named_modules():
        if isinstance(module, nn.Conv2d):
            assert module.bias is None
            fan_out = module.out_channels * module.kernel_size[0] ** 2
            assert module.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.05), name
        elif isinstance(module, nn.BatchNorm2d):
            assert module.weight.eq(1).all()
            assert module.bias.eq(0).all()


@pytest.mark.parametrize("side", [7, 8, 9])
def test_pooled_shortcut_shrinks_like_a_strided_convolution(side: int) -> None:
    maps = torch.randn(2, 4, side, side)
    strided = nn.Conv2d(4, 6, 3, 2, padding=1)(maps)
    assert PooledShortcut(4, 6, 2)(maps).shape == strided.shape


def test_rs_resnet_takes_small_crops() -> None:
    assert build_encoder("rs-resnet18")(torch.randn(2, 3, 18, 18)).shape == (2, 512)
