"""The contract of every encoder, and the defaults."""

import pytest
import torch
from torch import nn

from newfound.core.encoder import Encoder, Preprocessing
from newfound.core.errors import UsageError
from newfound.core.registry import register_encoder
from newfound.nn.encoders import ENCODERS, build_encoder, encoder_for, preprocessing_of

NAMES = [name for name in ENCODERS.names() if not name.endswith(":")]


@pytest.mark.parametrize("name", NAMES)
def test_contract(name: str) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(name, pretrained=False)
    side = 64 if name in ("lite0", "resnet18", "resnet34", "resnet50") else 16
    images = torch.randn(2, 3, side, side)
    features = encoder(images)
    assert features.shape == (2, encoder.dim)
    encoder.eval()
    assert encoder.has_maps
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


def test_any_module_is_an_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ENCODERS, "items", dict(ENCODERS.items))
    look = Preprocessing(8, (0.5,) * 3, (0.25,) * 3)

    @register_encoder("mine")
    def mine() -> Encoder:
        return Encoder.of(nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 5)), 5, look)

    encoder = build_encoder("mine")
    assert encoder(torch.rand(2, 3, 8, 8)).shape == (2, encoder.dim)
    assert encoder.pretrained
    assert not encoder.has_maps
    assert not encoder.last_parameters
    assert preprocessing_of("mine") == look


def test_a_frozen_encoder_stays_as_it_is() -> None:
    encoder = build_encoder("small")
    encoder.freeze()
    before = {key: value.clone() for key, value in encoder.state_dict().items()}
    features = encoder.train()(torch.rand(4, 3, 8, 8))
    assert not features.requires_grad
    assert all(torch.equal(value, before[key]) for key, value in encoder.state_dict().items())


def test_features_are_at_least_float32() -> None:
    encoder = Encoder.of(nn.Flatten(), 12)
    assert encoder(torch.rand(2, 3, 2, 2, dtype=torch.bfloat16)).dtype == torch.float32
    assert encoder(torch.rand(2, 3, 2, 2, dtype=torch.float64)).dtype == torch.float64


def test_an_encoder_from_scratch_takes_images_as_they_are() -> None:
    assert preprocessing_of("resnet50") is None
    assert not build_encoder("small").pretrained


def test_an_unknown_prefix_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"Unknown encoder 'hg:'. Did you mean 'hf:'"):
        build_encoder("hg:some/model")
