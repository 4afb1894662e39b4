"""The contract of every encoder, and the defaults."""

import pytest
import torch

from newfound.nn.encoders import ENCODERS, build_encoder, encoder_for


@pytest.mark.parametrize("name", ENCODERS.names())
def test_contract(name: str) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(name)
    side = 64 if name in ("resnet18", "resnet34", "resnet50") else 16
    images = torch.randn(2, 3, side, side)
    features = encoder(images)
    assert features.shape == (2, encoder.dim)
    encoder.eval()
    maps = encoder.last_block(encoder.trunk(images))
    torch.testing.assert_close(maps.mean(dim=(2, 3)), encoder(images))
    features.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.parameters())
    assert any(True for _ in encoder.last_block.parameters())


@pytest.mark.parametrize("size", [5, 8, 12, 16])
def test_small_takes_digit_sizes(size: int) -> None:
    encoder = build_encoder("small")
    assert encoder(torch.randn(4, 3, size, size)).shape == (4, encoder.dim)


def test_same_seed_same_bits() -> None:
    def features() -> torch.Tensor:
        torch.manual_seed(3)
        out: torch.Tensor = build_encoder("small")(torch.randn(4, 3, 8, 8))
        return out

    assert torch.equal(features(), features())


@pytest.mark.parametrize(
    ("kind", "size", "name"),
    [
        ("digits", 28, "small"),
        ("cifar", 16, "small"),
        ("cifar", 32, "resnet18-cifar"),
        ("imagenet", 64, "resnet18"),
    ],
)
def test_default(kind: str, size: int, name: str) -> None:
    assert encoder_for(kind, size) == name
    assert name in ENCODERS.names()
