"""Checkpoints: round trip and strictness."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from newfound.core.errors import CheckpointError
from newfound.engine.checkpoint import Checkpoint, load_strictly, moments_of, restore_moments


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


def test_strict_loading_names_a_problem() -> None:
    weights = {"weight": torch.zeros(5, 3), "extra": torch.zeros(1)}
    with pytest.raises(CheckpointError, match=r"not a fit .*weight.*5, 3.*2, 3"):
        load_strictly(nn.Linear(3, 2), weights, Path("c"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int64])
def test_weights_and_moments_of_another_type_are_refused(dtype: torch.dtype) -> None:
    """torch would convert them in silence."""
    module, optimiser = trained()
    weights = {key: value.to(dtype) for key, value in module.state_dict().items()}
    with pytest.raises(CheckpointError, match=f"{dtype}.*not torch.float32"):
        load_strictly(module, weights, Path("c"))
    with pytest.raises(ValueError, match=f"{dtype}.*not torch.float32"):
        restore_moments(module, optimiser, {"momentum_buffer/bias": torch.zeros(2, dtype=dtype)})


@pytest.mark.parametrize("state", ["", "[]", "[" * 100_000, '{"a":' * 100_000])
def test_a_damaged_state_is_one_error(tmp_path: Path, state: str) -> None:
    save_file({}, tmp_path / "c.safetensors", {"state": state})
    with pytest.raises(CheckpointError, match="not a newfound checkpoint"):
        Checkpoint.load(tmp_path / "c.safetensors")


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "])
def test_damaged_file_is_one_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"Cannot read|not a newfound checkpoint"):
        Checkpoint.load(path)


def test_a_flipped_bit_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    path, (module, optimiser) = tmp_path / "c.safetensors", trained()
    state = {"class_names": ['"digest":"' + "0" * 32 + '"']}
    Checkpoint(module.state_dict(), moments_of(module, optimiser), state).save(path)
    whole = path.read_bytes()
    assert Checkpoint.load(path).state == state
    key = whole.index(b'"digest":')
    for place in [*range(8, key, 7), *range(key + len('"digest"'), len(whole), 7)]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(CheckpointError, match="not a newfound checkpoint"):
            Checkpoint.load(path)


def test_missing_file_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"No such file or directory\.$"):
        Checkpoint.load(tmp_path / "c.safetensors")


def test_safetensors_of_others_are_no_checkpoint_but_may_be_weights(tmp_path: Path) -> None:
    save_file({"conv1.weight": torch.ones(2)}, tmp_path / "resnet.safetensors")
    with pytest.raises(CheckpointError, match="not a newfound checkpoint"):
        Checkpoint.load(tmp_path / "resnet.safetensors")


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
