"""The device, precision and step mode that a run uses, resolved from its settings."""

from typing import cast

import torch

from newfound.core import dist
from newfound.core.errors import UsageError
from newfound.engine.step import Mode

BF16 = (8, 0)
"""The lowest compute capability of a GPU with bf16; torch's own check also counts slow emulation."""
BF16_ON_CPU = ("avx512_bf16", "amx_bf16")
"""Instruction sets with which a CPU multiplies in bf16."""
LONG_RUN_STEPS = 2000
"""Compilation does not pay off in shorter runs."""


def resolve_device(wanted: str) -> torch.device:
    """`auto` takes a GPU if there is one."""
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gpus = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    if wanted not in ("cpu", "cuda" if gpus else "cpu", *gpus):
        found = f"torch finds {len(gpus)} GPUs here"
        raise UsageError(f"Setting 'device' must be auto, cpu or cuda[:N] ({found}), got {wanted!r}.")
    return torch.device(wanted)


def resolve_precision(wanted: str, device: torch.device) -> torch.dtype:
    """`auto`: float32 on a CPU, bf16 on a GPU that has it, otherwise fp16.

    Deviation: UNO and IIC were trained with fp16, the others in float32. bf16 needs no loss scaling, which a
    captured step could not contain; classifiers and losses are float32 in any case.
    """
    if wanted == "auto":
        if device.type == "cpu":
            return torch.float32
        return torch.bfloat16 if torch.cuda.get_device_capability(device) >= BF16 else torch.float16
    if wanted == "fp16" and device.type == "cpu":
        raise UsageError("precision=fp16 needs a GPU. On a CPU use float32 or bf16.")
    return {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[wanted]


def fastest_precision(device: torch.device) -> torch.dtype:
    """The precision in which a network is applied fastest: also bf16 on a CPU with instructions for it."""
    if device.type == "cpu":
        features: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
        return torch.bfloat16 if any(map(features.get, BF16_ON_CPU)) else torch.float32
    return resolve_precision("auto", device)


def precision_name(precision: torch.dtype) -> str:
    """Its name in records, such as `bfloat16`."""
    return str(precision).removeprefix("torch.")


def safer_settings(precision: torch.dtype) -> str:
    """Settings that may keep training in this precision from diverging."""
    return "a lower lr" + " or precision=float32" * (precision != torch.float32)


def hardware(device: torch.device) -> str:
    """The GPUs or CPU threads that a run uses."""
    number = f"{dist.world()} x " * (dist.world() > 1)
    if device.type == "cuda":
        return number + torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{number}CPU, {threads} thread{'s' * (threads > 1)}"


def resolve_mode(wanted: str, device: torch.device, precision: torch.dtype, *, steps: int) -> Mode:
    """`auto`: a CUDA graph for a long run on a GPU, otherwise eager.

    A graph cannot contain the loss scaling of fp16, which happens on the host.
    """
    can_capture = device.type == "cuda" and precision != torch.float16
    if wanted == "graph" and not can_capture:
        raise UsageError(f"mode=graph needs a GPU and bf16 or float32, got {device.type} and {precision}.")
    if wanted != "auto":
        return cast(Mode, wanted)
    return "graph" if can_capture and steps >= LONG_RUN_STEPS else "eager"
