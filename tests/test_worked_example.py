"""examples/new_method.py and the other examples of extensions run as they are printed in docs/."""

import os
import re
import subprocess
import sys
from math import log
from pathlib import Path
from typing import Any

import pytest
import torch

from newfound.core.records import Batch, Clock, Task
from newfound.core.registry import DATASETS, ENCODERS, EXPORTERS, METHODS
from newfound.data.benchmarks import load_benchmark
from newfound.data.dataset import Dataset
from newfound.nn.encoders import build_encoder
from newfound.nn.encoders.small import SmallEncoder
from tests.contract import test_methods as contract
from tests.tiny import tiny_recipe, tiny_run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
TEXTS = [
    (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for page in ("adding-a-method", "adding-an-encoder", "adding-a-data-set", "export")
]
METHOD, ENCODER, DATASET, EXPORTER = re.findall(r"```python\n(.*?)```", "".join(TEXTS), re.DOTALL)


@pytest.fixture(autouse=True)
def registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test registers is gone after it."""
    for registry in (METHODS, ENCODERS, DATASETS, EXPORTERS):
        registry.load()
        monkeypatch.setattr(registry, "items", dict(registry.items))
    METHODS.items.pop("balance", None)


def executed(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "worked_example"}
    exec(compile(code, "docs", "exec"), names)
    return names


@pytest.fixture
def balance() -> Any:
    """The class that the page defines."""
    return executed(METHOD)["Balance"]


def test_it_is_short() -> None:
    assert len([line for line in METHOD.splitlines() if line.strip()]) < 60


@pytest.mark.parametrize(
    "code", [METHOD, ENCODER, DATASET, EXPORTER], ids=["method", "encoder", "data", "export"]
)
@pytest.mark.parametrize("call", [["check"], ["format", "--check"]], ids=" ".join)
def test_it_can_be_pasted_as_it_is(call: list[str], code: str) -> None:
    pytest.importorskip("ruff")
    ruff = [sys.executable, "-m", "ruff", *call, "--stdin-filename", "src/newfound/methods/balance.py", "-"]
    done = subprocess.run(ruff, cwd=ROOT, input=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_loss_is_its_definition(balance: Any) -> None:
    torch.manual_seed(0)
    method, clock = balance(SmallEncoder(), Task(2, 3), balance.Config(weight=0.5)), Clock(torch.zeros(()))
    batch = Batch((torch.rand(1, 6, 3, 8, 8),), torch.tensor([1, 0]), torch.arange(6))
    out = method(batch, clock)
    p = out["novel"][2:].softmax(-1).double().tolist()
    mean = [sum(row[c] for row in p) / 4 for c in range(3)]
    each = -sum(value * log(value) for row in p for value in row) / 4
    overall = -sum(value * log(value) for value in mean)
    assert method.loss(out, batch, clock)["mi"].item() == pytest.approx(0.5 * (each - overall), rel=1e-4)


def test_its_scores_are_cosines_after_a_step(balance: Any) -> None:
    method = balance(SmallEncoder(), Task(2, 3), balance.Config(tau=1.0))
    torch.nn.init.constant_(method.g.prototypes, 9.0)
    method.after_step()
    assert method.scores(torch.rand(4, 3, 8, 8)).abs().max() <= 1.0001


@pytest.mark.usefixtures("balance")
def test_it_keeps_the_contract(digits: Dataset, tmp_path: Path) -> None:
    contract.test_loss_is_finite_and_every_trainable_parameter_gets_a_gradient("balance", digits)
    contract.test_scores_cover_all_classes_for_every_head("balance", digits)
    contract.test_same_seed_same_bits_and_hidden_labels_change_none("balance", digits, tmp_path)


def test_a_method_trains_with_the_encoder_on_the_data_set(balance: Any, tmp_path: Path) -> None:
    executed(ENCODER)
    executed(DATASET)
    blobs = load_benchmark("blobs")
    assert (blobs.num_known, blobs.num_novel) == (3, 2)
    assert build_encoder("wide")(torch.rand(2, 3, 8, 8)).shape == (2, 256)
    tiny_run(tmp_path / "run", tiny_recipe("balance", encoder="wide"), blobs).discover()


def test_an_exporter_is_registered() -> None:
    executed(EXPORTER)
    assert "tsv" in EXPORTERS.names()


def lists_methods(folder: Path, modules: str) -> subprocess.CompletedProcess[str]:
    """`newfound methods` called in a folder, by a script that lies elsewhere, as the command does."""
    script = folder / "bin" / "newfound"
    script.parent.mkdir(exist_ok=True)
    script.write_text("from newfound.cli import main\nmain()\n")
    environment = os.environ | {
        "NEWFOUND_PLUGINS": modules,
        "COLUMNS": "200",
        "PYTHONPATH": str(ROOT / "src"),
    }
    call = [sys.executable, str(script), "methods"]
    return subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_it_may_stay_in_a_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "apart.py").write_text(METHOD.replace('register("balance"', 'register("kept-apart"'))
    (tmp_path / "clash.py").write_text(METHOD.replace('register("balance"', 'register("joint"'))
    assert "kept-apart" in lists_methods(tmp_path, "apart").stdout
    assert "kept-apart" not in lists_methods(tmp_path, "").stdout
    for modules, words in {"nowhere": "'nowhere'", "clash": "'joint' of clash.Balance"}.items():
        done = lists_methods(tmp_path, modules)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert words in done.stderr
