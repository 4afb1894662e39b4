"""A finished run is opened from its folder alone, also on another machine."""

import json
from pathlib import Path

import pytest
import torch

from newfound.data.images import Dataset
from newfound.experiment.reopen import load_method
from tests.tiny import tiny_recipe, tiny_run


@pytest.mark.parametrize(
    ("wanted", "here"), [("fp16", torch.float32), ("bf16", torch.bfloat16), ("auto", torch.float32)]
)
def test_a_precision_that_is_not_to_be_had_here(
    wanted: str, here: torch.dtype, digits: Dataset, tmp_path: Path
) -> None:
    run = tiny_run(tmp_path / "run", tiny_recipe("kmeans"), digits)
    run.discover(tmp_path / "cache")
    config = json.loads(run.folder.config.read_text())
    config["settings"]["precision"] = wanted
    run.folder.config.write_text(json.dumps(config))
    assert load_method(run.folder).viewer.precision == here
