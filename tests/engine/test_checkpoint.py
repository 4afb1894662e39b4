"""Checkpoints: round trip, strictness, and files that are never half written."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from newfound.core.errors import CheckpointError, RunError
from newfound.engine.checkpoint import Checkpoint, load_strictly, moments_of, restore_moments
from newfound.engine.files import write_json, write_text
from newfound.engine.official import load_official, load_torchvision


def trained() -> tuple[nn.Linear, torch.optim.SGD]:
    torch.manual_seed(0)
    module = nn.Linear(3, 2)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    module(torch.rand(4, 3)).sum().backward()
    optimiser.step()
    return module, optimiser


def test_round_trip_is_exact(tmp_path: Path) -> None:
    module, optimiser = trained()
    state = {"epoch": 3, "lines": [{"loss": 0.1}]}
    Checkpoint(module.state_dict(), moments_of(module, optimiser), state).save(tmp_path / "c.safetensors")
    loaded = Checkpoint.load(tmp_path / "c.safetensors")
    other = nn.Linear(3, 2)
    second = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
    load_strictly(other, loaded.weights, tmp_path)
    restore_moments(other, second, loaded.moments)
    assert loaded.state == state
    assert torch.equal(other.weight, module.weight)
    assert torch.equal(
        second.state[other.weight]["momentum_buffer"], optimiser.state[module.weight]["momentum_buffer"]
    )


def test_momentum_comes_back_in_the_layout_of_its_parameter() -> None:
    """A GPU's fused update refuses any other."""
    module = nn.Conv2d(8, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.SGD(module.parameters(), momentum=0.9)
    saved = torch.rand(4, 8, 3, 3)
    restore_moments(module, optimiser, {"momentum_buffer/weight": saved})
    buffer = optimiser.state[module.weight]["momentum_buffer"]
    assert buffer.stride() == module.weight.stride() != saved.stride()
    assert torch.equal(buffer, saved)
    assert not buffer.requires_grad


def test_strict_loading_lists_every_problem() -> None:
    weights = {"weight": torch.zeros(5, 3), "extra": torch.zeros(1)}
    with pytest.raises(
        CheckpointError, match=r"missing bias.*unexpected extra.*weight is \(5, 3\), must be \(2, 3\)"
    ):
        load_strictly(nn.Linear(3, 2), weights, Path("c"))


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "])
def test_damaged_file_is_one_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="must be a checkpoint of newfound"):
        Checkpoint.load(path)


def test_missing_file_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="found none"):
        Checkpoint.load(tmp_path / "c.safetensors")


def test_full_disk_keeps_the_old_file_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    write_json(path, {"old": 1})

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunError, match=r"No space left on device.*unharmed"):
        write_text(path, "new")
    assert json.loads(path.read_text()) == {"old": 1}
    assert list(tmp_path.iterdir()) == [path]


def official(tmp_path: Path, **extra: torch.Tensor) -> Path:
    path = tmp_path / "pretrain.cp"
    weights = {"encoder.conv1.weight": torch.ones(2, 2), "head_lab.prototypes.weight": torch.ones(5, 4)}
    torch.save(weights | extra, path)
    return path


def test_official_checkpoint_is_renamed_and_reported(tmp_path: Path) -> None:
    weights, unused = load_official(official(tmp_path, **{"head_unlab.prototypes.weight": torch.zeros(1)}))
    assert set(weights) == {"encoder.conv1.weight", "h.prototypes"}
    assert unused == ["head_unlab.prototypes.weight"]


def test_official_checkpoint_without_the_head_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "other.cp"
    torch.save({"encoder.conv1.weight": torch.ones(2)}, path)
    with pytest.raises(CheckpointError, match=r"must hold encoder\.\* and head_lab"):
        load_official(path)


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, ("touch hacked",)


def test_official_checkpoint_cannot_execute_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"encoder.x": Hostile()}, tmp_path / "bad.cp")
    with pytest.raises(CheckpointError, match="without executing code"):
        load_official(tmp_path / "bad.cp")
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize("name", ["resnet.pth", "resnet.safetensors"])
def test_a_network_of_torchvision_comes_without_its_classifier(tmp_path: Path, name: str) -> None:
    found: dict[str, Any] = {
        "module.conv1.weight": torch.ones(2, dtype=torch.bfloat16),
        "bn1.running_var": torch.ones(2),
        "bn2.running_var": torch.ones(2),
        "bn2.num_batches_tracked": torch.tensor(7),
        "fc.weight": torch.ones(3, 2),
    }
    if name.endswith("pth"):
        found["epoch"] = 3
    (save_file if name.endswith("tensors") else torch.save)(found, tmp_path / name)
    weights = load_torchvision(tmp_path / name)
    stay = {"conv1.weight", "bn1.running_var", "bn2.running_var", "bn2.num_batches_tracked"}
    assert set(weights) == {f"encoder.{key}" for key in stay | {"bn1.num_batches_tracked"}}
    assert weights["encoder.bn1.num_batches_tracked"] == 0, "old files have no counts"
    assert weights["encoder.bn2.num_batches_tracked"] == 7
    assert weights["encoder.conv1.weight"].dtype == torch.float32


def test_safetensors_of_others_are_no_checkpoint_but_may_be_weights(tmp_path: Path) -> None:
    save_file({"conv1.weight": torch.ones(2)}, tmp_path / "resnet.safetensors")
    with pytest.raises(CheckpointError, match="a safetensors file of others; weights=FILE takes a network"):
        Checkpoint.load(tmp_path / "resnet.safetensors")


def test_what_is_no_network_of_torchvision_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"must hold a ResNet .*got: encoder\.conv1"):
        load_torchvision(official(tmp_path))
    (tmp_path / "torn.safetensors").write_bytes(b"no")
    with pytest.raises(CheckpointError, match="must be a whole safetensors file"):
        load_torchvision(tmp_path / "torn.safetensors")
    with pytest.raises(CheckpointError, match="found none; check the path"):
        load_torchvision(tmp_path / "none.pth")


def test_moments_of_adam_come_back(tmp_path: Path) -> None:
    module, _ = trained()
    optimiser = torch.optim.Adam(module.parameters())
    optimiser.step()
    Checkpoint(module.state_dict(), moments_of(module, optimiser), {}).save(tmp_path / "c.safetensors")
    other = nn.Linear(3, 2)
    second = torch.optim.Adam(other.parameters())
    restore_moments(other, second, Checkpoint.load(tmp_path / "c.safetensors").moments)
    for old, new in ((module.weight, other.weight), (module.bias, other.bias)):
        assert set(second.state[new]) == {"step", "exp_avg", "exp_avg_sq"}
        assert all(torch.equal(optimiser.state[old][key], value) for key, value in second.state[new].items())
