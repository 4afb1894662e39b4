"""A run that was killed at any moment and resumed ends with the same bits as one that was not."""

import multiprocessing
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from newfound.core.errors import RunError, UsageError
from newfound.data.images import Dataset
from newfound.engine.checkpoint import Checkpoint
from newfound.engine.device import hardware
from newfound.engine.trainer import EpochRecord
from newfound.experiment import Run, Stopped
from newfound.experiment.finish import finish as finish_run
from newfound.experiment.provenance import commit
from newfound.methods.iic import IIC
from tests.tiny import CPU, tiny_recipe, tiny_run

KILLS = 20
CALL = [
    *(sys.executable, "-m", "newfound", "discover", "iic", "--data", "digits", "--subset", "12", "--resume"),
    *("epochs=8", "pretrain.epochs=8", "batch_size=48", "pretrain.batch_size=24", "warmup=1"),
    *("pretrain.warmup=1", "hidden=32", "projection=16", "checkpoint_seconds=0", "device=cpu"),
]

# Small tensors on a machine that may be busy: more threads only wait for each other.
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def finish(out: Path) -> Checkpoint:
    subprocess.run([*CALL, "--out", str(out)], check=True, capture_output=True, timeout=300, env=ENVIRONMENT)
    return Checkpoint.load(out / "checkpoint.safetensors")


def started(out: Path) -> multiprocessing.process.BaseProcess:
    """The same call in a process that starts with everything imported: most of a life is training then."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["newfound.cli.app", "sklearn.datasets", "torch._dynamo", "sympy"])
    code = (
        "import os, sys, torch; torch.set_num_threads(1); sys.stdout = sys.stderr = open(os.devnull, 'w'); "
        f"sys.argv = {['newfound', *CALL[3:], '--out', str(out)]!r}; from newfound.cli import main; main()"
    )
    process = context.Process(target=exec, args=(code,))
    process.start()
    return process


def test_sigkill_at_random_moments(tmp_path: Path) -> None:
    """Twenty kills, spread over one run's whole life; each time it is resumed and killed again."""
    whole = finish(tmp_path / "whole" / "run")
    started(tmp_path / "warm-up" / "run").join(300)
    start = time.monotonic()
    started(tmp_path / "timed" / "run").join(300)
    lifetime = time.monotonic() - start
    chance, out, kills = random.Random(0), tmp_path / "b" / "killed", 0
    while kills < KILLS:
        process = started(out)
        process.join(chance.uniform(0.1, 1.0) * lifetime)
        if process.exitcode is None:
            process.kill()
            process.join()
            kills += 1
            continue
        assert process.exitcode == 0
        # It got to the end before the kill: begin a new one, pretraining included, and kill that.
        assert_equal(whole, Checkpoint.load(out / "checkpoint.safetensors"))
        out = tmp_path / f"b{kills}" / "killed"
    assert_equal(whole, finish(out))


def assert_equal(first: Checkpoint, second: Checkpoint) -> None:
    assert second.state["stage"] == "discover"
    assert first.state["epoch"] == second.state["epoch"]
    assert all(torch.equal(value, second.weights[key]) for key, value in first.weights.items())
    assert all(torch.equal(value, second.moments[key]) for key, value in first.moments.items())
    lines = [
        [{**line, "seconds": 0, "images_per_second": 0} for line in c.state["lines"]] for c in (first, second)
    ]
    assert lines[1] == lines[0][-len(lines[1]) :]


@pytest.mark.parametrize("stage", ["pretrain", "discover"])
def test_stop_and_resume_in_either_stage(stage: str, digits: Dataset, tmp_path: Path) -> None:
    recipe = tiny_recipe("iic", epochs=3, **{"pretrain.epochs": 3})
    whole = tiny_run(tmp_path / "whole", recipe, digits).discover(tmp_path / "cache-a")
    stopped = tiny_run(tmp_path / "run", recipe, digits)
    seen: list[EpochRecord] = []
    stopped.watch = lambda record, scores: seen.append(record)
    stopped.should_stop = lambda: seen[-1].stage == stage
    with pytest.raises(Stopped):
        stopped.discover(tmp_path / "cache-b")
    assert stopped.saved is not None
    assert (stopped.saved.state["stage"], stopped.saved.state["epoch"]) == (stage, 1)
    resumed = tiny_run(tmp_path / "run", recipe, digits, resume=True).discover(tmp_path / "cache-b")
    assert all(torch.equal(value, resumed.state_dict()[key]) for key, value in whole.state_dict().items())


def test_half_written_checkpoint_does_no_harm(digits: Dataset, tmp_path: Path) -> None:
    recipe = tiny_recipe("iic")
    whole = tiny_run(tmp_path / "run", recipe, digits).discover(tmp_path / "cache").state_dict()
    half = tmp_path / "run" / ".checkpoint.safetensors.1.tmp"
    half.write_bytes(b"half")
    again = tiny_run(tmp_path / "run", recipe, digits, resume=True).discover(tmp_path / "cache").state_dict()
    assert not half.exists()
    assert all(torch.equal(value, again[key]) for key, value in whole.items())


def test_an_existing_run_is_not_overwritten(digits: Dataset, tmp_path: Path) -> None:
    tiny_run(tmp_path / "run", tiny_recipe("iic"), digits)
    with pytest.raises(UsageError, match="holds a run already"):
        tiny_run(tmp_path / "run", tiny_recipe("iic"), digits)


def test_resume_names_the_settings_that_differ(digits: Dataset, tmp_path: Path) -> None:
    tiny_run(tmp_path / "run", tiny_recipe("iic"), digits)
    with pytest.raises(UsageError, match="other values for alpha, epochs"):
        tiny_run(tmp_path / "run", tiny_recipe("iic", alpha=0.5, epochs=9), digits, resume=True)


def test_nan_stops_the_run_and_keeps_the_last_good_checkpoint(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny_run(tmp_path / "run", tiny_recipe("iic", epochs=3), digits)
    original = IIC.loss

    def spoiled(self, out, batch, clock):  # type: ignore[no-untyped-def]
        losses = original(self, out, batch, clock)
        return losses | {"ce": losses["ce"] * torch.where(clock.epoch == 1, torch.nan, 1.0)}

    monkeypatch.setattr(IIC, "loss", spoiled)
    with pytest.raises(RunError, match=r"must stay finite; got ce.* = nan in epoch 2 of discover"):
        run.discover(tmp_path / "cache")
    saved = Checkpoint.load(run.folder.checkpoint)
    assert (saved.state["stage"], saved.state["epoch"]) == ("discover", 1)
    assert all(torch.isfinite(value).all() for value in saved.weights.values())


def stop_in_discovery(run: Run, cache: Path) -> None:
    """After one epoch of it."""
    run.should_stop = lambda: "discover" in run.account.timing
    with pytest.raises(Stopped):
        run.discover(cache)


def test_a_record_says_what_trained_each_part(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three sessions of discovery: the second is like the first, the third of other code and another mode."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    recipe, cache = tiny_recipe("iic", epochs=4), tmp_path / "cache"
    for _ in range(2):
        stop_in_discovery(tiny_run(tmp_path / "run", recipe, digits, resume=True), cache)
    here = {"commit": commit(), "hardware": hardware(CPU), "precision": "float32", "mode": "eager"}
    monkeypatch.setattr("newfound.experiment.account.commit", lambda: "later")
    monkeypatch.setattr("newfound.experiment.run.resolve_mode", lambda *_, steps: "compiled")
    run = tiny_run(tmp_path / "run", recipe, digits, resume=True)
    results, _ = finish_run(run, run.discover(cache))
    assert results["sessions"] == [
        {"stage": "pretrain", "epoch": 0, **here},
        {"stage": "discover", "epoch": 0, **here},
        {"stage": "discover", "epoch": 2, **here, "commit": "later", "mode": "compiled"},
    ]
    assert run.account.trained["discover"]["commit"] == f"{commit()} and later"
    assert run.account.trained["discover"]["mode"] == "eager and compiled"


def test_a_checkpoint_of_an_earlier_version_goes_on(digits: Dataset, tmp_path: Path) -> None:
    """It does not say what trained it so far."""
    recipe, cache = tiny_recipe("iic"), tmp_path / "cache"
    run = tiny_run(tmp_path / "run", recipe, digits)
    stop_in_discovery(run, cache)
    saved = Checkpoint.load(run.folder.checkpoint)
    del saved.state["sessions"], saved.state["trained"]
    saved.save(run.folder.checkpoint)
    resumed = tiny_run(tmp_path / "run", recipe, digits, resume=True)
    resumed.discover(cache)
    assert [(each["stage"], each["epoch"]) for each in resumed.account.sessions] == [("discover", 1)]
