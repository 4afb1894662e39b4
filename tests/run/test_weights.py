"""Weights from files of others: renamed, complete, and unable to execute code."""

import os
import pickle
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from newfound.core.errors import CheckpointError
from newfound.nn.encoders import build_encoder
from newfound.run.weights import KNOWN_HEAD, load_encoder, load_pretrained

UNO = {"encoder.conv1.weight": torch.ones(2, 2), "head_lab.prototypes.weight": torch.ones(5, 4)}
"""As the official UNO and IIC codes write it."""


def saved(path: Path, content: object) -> Path:
    torch.save(content, path)
    return path


def test_an_official_checkpoint_is_renamed_and_the_rest_is_named(tmp_path: Path) -> None:
    extra = {"head_unlab.prototypes.weight": torch.zeros(1)}
    weights, unused = load_pretrained(saved(tmp_path / "uno.cp", UNO | extra))
    assert set(weights) == {"encoder.conv1.weight", "h.prototypes"}
    assert unused == list(extra)


def test_an_official_checkpoint_without_the_head_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "other.cp", {"encoder.conv1.weight": torch.ones(2)})
    with pytest.raises(CheckpointError, match="is not a pretrained checkpoint"):
        load_pretrained(path)


@pytest.mark.parametrize("content", [5, [], None, "text", {"state_dict": 5}, {"state_dict": {"a": 1}}])
def test_a_state_dict_of_something_else_is_refused(content: object, tmp_path: Path) -> None:
    path = saved(tmp_path / "other.cp", content)
    for load in (load_pretrained, lambda path: load_encoder(path, "resnet18")):
        with pytest.raises(CheckpointError, match=r"other\.cp is not"):
            load(path)


def test_a_pickle_that_torch_did_not_write_is_refused_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "other.cp").write_bytes(pickle.dumps({"conv1.weight": 1}, 4))
    with warnings.catch_warnings(record=True) as told, pytest.raises(CheckpointError, match=r"other\.cp"):
        load_pretrained(tmp_path / "other.cp")
    assert told == []


@pytest.mark.parametrize("key", [KNOWN_HEAD, "encoder.conv1.weight"])
def test_an_official_checkpoint_of_no_tensors_is_refused(key: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a pretrained checkpoint"):
        load_pretrained(saved(tmp_path / "uno.cp", UNO | {key: 3.5}))


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch hacked",)


def test_a_checkpoint_cannot_execute_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path / "bad.cp", {"conv1.weight": Hostile()})
    with pytest.raises(CheckpointError, match="without executing code"):
        load_pretrained(path)
    with pytest.raises(CheckpointError, match="without executing code"):
        load_encoder(path, "small")
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize("name", ["resnet.pth", "resnet.safetensors"])
def test_a_network_of_torchvision_comes_without_its_classifier(tmp_path: Path, name: str) -> None:
    own = build_encoder("resnet18").state_dict()
    own["layer1.0.bn1.num_batches_tracked"] += 7
    found: dict[str, Tensor] = dict(own)
    del found["bn1.num_batches_tracked"]  # old files have no counts
    found["module.conv1.weight"] = found.pop("conv1.weight").bfloat16()
    found["fc.weight"] = torch.ones(3, 2)
    if name.endswith("pth"):
        torch.save({"state_dict": found, "epoch": 3}, tmp_path / name)
    else:
        save_file(found, tmp_path / name)
    weights = load_encoder(tmp_path / name, "resnet18")
    assert set(weights) == {f"encoder.{key}" for key in own}
    assert weights["encoder.bn1.num_batches_tracked"] == 0
    assert weights["encoder.layer1.0.bn1.num_batches_tracked"] == 7
    assert weights["encoder.conv1.weight"].dtype == torch.float32


def test_weights_of_another_encoder_name_the_one_they_fit(tmp_path: Path) -> None:
    path = saved(tmp_path / "resnet.pth", build_encoder("resnet18-cifar").state_dict())
    with pytest.raises(CheckpointError, match="encoder=resnet18-cifar"):
        load_encoder(path, "resnet18")


def test_what_is_no_network_of_torchvision_is_refused(tmp_path: Path) -> None:
    (tmp_path / "torn.safetensors").write_bytes(b"no")
    for path, words in {
        saved(tmp_path / "uno.cp", UNO): "is not a ResNet",
        tmp_path / "torn.safetensors": "not a plain torch state dict",
        tmp_path / "none.pth": "No such file",
    }.items():
        with pytest.raises(CheckpointError, match=words):
            load_encoder(path, "resnet18")
