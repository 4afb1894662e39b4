"""What a run says before it trains."""

import pytest
import torch

from newfound.core.settings import RunConfig
from newfound.run.training import fallback_reason
from tests.tiny import CPU

GPU = torch.device("cuda")


def test_what_auto_falls_back_to_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    assert fallback_reason(RunConfig(), CPU, torch.float32).startswith("no GPU")
    assert fallback_reason(RunConfig(), GPU, torch.float16).startswith("Tesla T4 has no bf16")


@pytest.mark.parametrize(
    ("run", "device", "precision"),
    [
        (RunConfig(), GPU, torch.bfloat16),
        (RunConfig(device="cpu"), CPU, torch.float32),
        (RunConfig(precision="fp16"), GPU, torch.float16),
    ],
)
def test_nothing_is_said_of_what_was_wanted(
    run: RunConfig, device: torch.device, precision: torch.dtype
) -> None:
    assert fallback_reason(run, device, precision) == ""
