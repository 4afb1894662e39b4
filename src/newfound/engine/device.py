"""Which device and which precision a run really uses."""

import re
from typing import cast

import torch

from newfound.core.config import RunConfig
from newfound.core.errors import UsageError
from newfound.engine.step import Mode

BF16 = (8, 0)
"""The compute capability from which on a GPU has bf16."""
LONG_RUN_STEPS = 2000
"""Runs of fewer steps end before a compilation would have paid."""


def resolve_device(wanted: str) -> torch.device:
    """`auto` takes a GPU when there is one."""
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", wanted):
        raise UsageError(f"device must be auto, cpu or cuda[:N]; got {wanted!r}; try device=auto")
    device = torch.device(wanted)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"device {wanted!r} must exist; this machine has {torch.cuda.device_count()} GPUs "
            "that torch can use; try device=cpu"
        )
    return device


def resolve_precision(wanted: str, device: torch.device) -> torch.dtype:
    """`auto`: float32 on a CPU, bf16 on a GPU that has it, fp16 on one that has not.

    Deviation: UNO and IIC were trained with fp16, the others in float32. bf16 needs no loss scaling, which a
    captured step could not hold; classifiers and losses are float32 in any case.
    """
    if wanted == "auto":
        if device.type == "cpu":
            return torch.float32
        return torch.bfloat16 if _has_bf16(device) else torch.float16
    if wanted == "fp16" and device.type == "cpu":
        raise UsageError("precision fp16 needs a GPU; got device cpu; try precision=float32 or bf16")
    if wanted == "bf16" and device.type == "cuda" and not _has_bf16(device):
        raise UsageError(
            f"precision bf16 needs a GPU that has it; got {hardware(device)}; try precision=auto or "
            "float32, in a new run where one was begun so"
        )
    return {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[wanted]


def precision_name(precision: torch.dtype) -> str:
    """As a record has it."""
    return str(precision).removeprefix("torch.")


def gentler(precision: torch.dtype) -> str:
    """What may keep a training from diverging that was of this precision."""
    return "a lower lr" + " or precision=float32" * (precision != torch.float32)


def _has_bf16(device: torch.device) -> bool:
    """Asked of the hardware: torch also counts what it emulates, slowly."""
    return torch.cuda.get_device_capability(device) >= BF16


def fallback_line(run: RunConfig, device: torch.device, precision: torch.dtype) -> str:
    """What is said where `auto` could not take the fastest; empty where it could."""
    if run.device == "auto" and device.type == "cpu":
        return "there is no GPU that torch can use, so the CPU trains"
    if run.precision == "auto" and precision == torch.float16:
        return f"{hardware(device)} has no bf16, so it trains in fp16, and steps are not captured"
    return ""


def hardware(device: torch.device) -> str:
    """What the run ran on, in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'s' * (threads > 1)}"


def resolve_mode(wanted: str, device: torch.device, precision: torch.dtype, *, steps: int) -> Mode:
    """`auto`: a CUDA graph for a long run on a GPU, eager otherwise.

    A graph cannot hold what happens on the host, the loss scaling of fp16.
    """
    can_capture = device.type == "cuda" and precision != torch.float16
    if wanted == "graph" and not can_capture:
        raise UsageError(
            "mode graph needs a GPU and a precision other than fp16; "
            f"got {device.type} and {precision}; leave it out"
        )
    if wanted != "auto":
        return cast(Mode, wanted)
    return "graph" if can_capture and steps >= LONG_RUN_STEPS else "eager"
