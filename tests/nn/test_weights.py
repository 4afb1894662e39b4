"""Weight files of torchvision: what is taken, what is ignored, what is refused."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from newfound.core.errors import CheckpointError
from newfound.nn.encoders import build_encoder
from newfound.nn.weights import load_torchvision


def published() -> dict[str, Tensor]:
    """What a file of torchvision's resnet18 holds."""
    torch.manual_seed(1)
    encoder = build_encoder("resnet18")
    fc = {"fc.weight": torch.randn(1000, 512), "fc.bias": torch.randn(1000)}
    return dict(encoder.state_dict()) | fc


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("counted", [True, False])
def test_round_trip(tmp_path: Path, suffix: str, counted: bool) -> None:
    weights = {k: v for k, v in published().items() if counted or "num_batches" not in k}
    path = tmp_path / f"weights{suffix}"
    if suffix == ".pth":
        torch.save(weights, path)
    else:
        save_file(weights, path)
    encoder = build_encoder("resnet18")
    load_torchvision(encoder, str(path))
    for key, value in encoder.state_dict().items():
        assert key not in weights or torch.equal(value, weights[key]), key


def test_every_key_that_does_not_fit_is_named(tmp_path: Path) -> None:
    weights = published()
    del weights["bn1.weight"], weights["layer4.1.conv2.weight"]
    weights |= {"extra.a": torch.zeros(1), "extra.b": torch.zeros(1)}
    torch.save(weights, tmp_path / "w.pth")
    encoder = build_encoder("resnet18-cifar")
    before = {key: value.clone() for key, value in encoder.state_dict().items()}
    with pytest.raises(CheckpointError) as error:
        load_torchvision(encoder, tmp_path / "w.pth")
    text = str(error.value)
    assert "missing: bn1.weight, layer4.1.conv2.weight;" in text
    assert "unexpected: extra.a, extra.b;" in text
    assert "conv1.weight (64, 3, 7, 7) (need (64, 3, 3, 3))" in text
    assert all(torch.equal(value, before[key]) for key, value in encoder.state_dict().items())


@pytest.mark.parametrize("name", ["absent.pth", "absent.safetensors", "broken.pth", "broken.safetensors"])
def test_unreadable_file(tmp_path: Path, name: str) -> None:
    if name.startswith("broken"):
        (tmp_path / name).write_bytes(b"these are not weights")
    with pytest.raises(CheckpointError, match=rf"{name} must be a readable .* download it again"):
        load_torchvision(build_encoder("small"), tmp_path / name)


def test_file_that_would_run_code(tmp_path: Path) -> None:
    torch.save({"conv1.weight": Path}, tmp_path / "w.pth")
    with pytest.raises(CheckpointError, match="plain tensors; got UnpicklingError"):
        load_torchvision(build_encoder("small"), tmp_path / "w.pth")


def test_file_of_other_things(tmp_path: Path) -> None:
    torch.save({"state_dict": {}, "epoch": 3}, tmp_path / "w.pth")
    with pytest.raises(CheckpointError, match="dictionary of tensors and nothing else"):
        load_torchvision(build_encoder("small"), tmp_path / "w.pth")
