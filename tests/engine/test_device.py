"""Which device, precision and mode a run really uses; GPUs are pretended."""

import pytest
import torch

from newfound.core.errors import UsageError
from newfound.engine.device import (
    LONG_RUN_STEPS,
    fastest_precision,
    hardware,
    resolve_device,
    resolve_mode,
    resolve_precision,
    safer_settings,
)

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Two GPUs with bf16."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    return monkeypatch


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("wanted", "got"), [("auto", "cuda"), ("cuda", "cuda"), ("cuda:1", "cuda:1"), ("cpu", "cpu")]
)
def test_device_with_gpus(wanted: str, got: str) -> None:
    assert resolve_device(wanted) == torch.device(got)


@pytest.mark.usefixtures("no_gpu")
def test_device_without_a_gpu() -> None:
    assert resolve_device("auto") == CPU
    with pytest.raises(UsageError, match="finds 0 GPUs"):
        resolve_device("cuda")


@pytest.mark.usefixtures("gpus")
def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="finds 2 GPUs"):
        resolve_device("cuda:2")


@pytest.mark.parametrize("wanted", ["gpu", "", "mps", "meta", "cuda:-1", "cuda:x", "cpu cuda"])
def test_what_is_no_device_of_ours(wanted: str) -> None:
    with pytest.raises(UsageError, match=f"got '{wanted}'"):
        resolve_device(wanted)


def test_precision_on_a_cpu() -> None:
    assert resolve_precision("auto", CPU) == torch.float32
    assert resolve_precision("bf16", CPU) == torch.bfloat16
    with pytest.raises(UsageError, match="fp16 needs a GPU"):
        resolve_precision("fp16", CPU)


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"avx512_bf16": True}, torch.bfloat16),
        ({"amx_bf16": True, "avx512_bf16": False}, torch.bfloat16),
        ({"avx2": True, "avx512_bf16": False}, torch.float32),
        ({}, torch.float32),
    ],
)
def test_inference_on_a_cpu_is_in_bf16_if_it_has_instructions_for_it(
    features: dict[str, bool], expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features, raising=False)
    assert fastest_precision(CPU) == expected
    monkeypatch.delattr(torch.cpu, "get_capabilities")  # older versions of torch
    assert fastest_precision(CPU) == torch.float32


def test_precision_on_a_gpu(gpus: pytest.MonkeyPatch) -> None:
    assert resolve_precision("auto", GPU) == torch.bfloat16
    assert resolve_precision("float32", GPU) == torch.float32
    gpus.setattr(torch.cuda, "is_bf16_supported", lambda: True)  # as torch says where it emulates it
    gpus.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert resolve_precision("auto", GPU) == torch.float16


def test_a_higher_precision_is_advised_where_there_is_one() -> None:
    assert safer_settings(torch.float32) == "a lower lr"
    assert (
        safer_settings(torch.bfloat16) == safer_settings(torch.float16) == "a lower lr or precision=float32"
    )


@pytest.mark.parametrize(
    ("wanted", "device", "precision", "steps", "mode"),
    [
        ("auto", CPU, torch.float32, 10**6, "eager"),
        ("auto", GPU, torch.bfloat16, LONG_RUN_STEPS, "graph"),
        ("auto", GPU, torch.bfloat16, LONG_RUN_STEPS - 1, "eager"),
        ("auto", GPU, torch.float16, 10**6, "eager"),
        ("eager", GPU, torch.bfloat16, 10**6, "eager"),
        ("compiled", CPU, torch.float32, 1, "compiled"),
        ("compiled", GPU, torch.float16, 1, "compiled"),
        ("graph", GPU, torch.float32, 1, "graph"),
    ],
)
def test_mode(wanted: str, device: torch.device, precision: torch.dtype, steps: int, mode: str) -> None:
    assert resolve_mode(wanted, device, precision, steps=steps) == mode


@pytest.mark.parametrize(("device", "precision"), [(CPU, torch.float32), (GPU, torch.float16)])
def test_a_graph_needs_a_gpu_and_no_loss_scaling(device: torch.device, precision: torch.dtype) -> None:
    with pytest.raises(UsageError, match="needs a GPU"):
        resolve_mode("graph", device, precision, steps=10**6)


def test_hardware_in_words() -> None:
    assert hardware(CPU) == "CPU, 1 thread"
