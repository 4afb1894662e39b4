"""A run of several processes that are killed, and resumed by another number of them."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
import torch

from newfound.core.errors import CheckpointError
from newfound.engine.checkpoint import Checkpoint
from newfound.run.folder import Folder
from tests.cli.calls import newfound

pytestmark = pytest.mark.slow
COMMAND = [
    *("-m", "newfound", "discover", "rs", "--data", "digits", "--subset", "24", "checkpoint_seconds=0"),
    *("device=cpu", "rotnet.epochs=1", "known.epochs=1", "lr=0.001", "rotnet.lr=0.001", "known.lr=0.001"),
]
TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def begun(command: list[str], out: Path) -> subprocess.Popen[str]:
    """The command, once it has trained an epoch of discovery."""
    call = [sys.executable, *command, "--out", str(out)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(call, text=True, start_new_session=True, env=ENVIRONMENT, **pipes)  # type: ignore[call-overload]
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        with suppress(CheckpointError):
            state = Checkpoint.load(out / "checkpoint.safetensors").state
            if state["stage"] == "discover" and state["epoch"]:
                return process  # type: ignore[no-any-return]
        time.sleep(0.02)
    raise AssertionError(process.communicate()[1])


def finished(command: list[str], out: Path) -> dict[str, torch.Tensor]:
    call = [sys.executable, *command, "--out", str(out)]
    subprocess.run(call, check=True, capture_output=True, timeout=120, env=ENVIRONMENT)
    return Checkpoint.load(out / "checkpoint.safetensors").weights


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The weights of a run that is never stopped."""
    return finished([*COMMAND, "epochs=12"], tmp_path_factory.mktemp("whole") / "run")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_of_two_processes_that_get_a_signal_is_resumed_with_one(
    number: int, whole: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    """Slurm sends SIGTERM to torchrun and its processes, and torchrun sends them another."""
    begun_with_two = begun([*TORCHRUN, *COMMAND, "epochs=12"], tmp_path / "run")
    launcher = [begun_with_two.pid] if number == signal.SIGTERM else []
    for process in children(begun_with_two.pid) + launcher:
        os.kill(process, number)
    out, _ = begun_with_two.communicate(timeout=60)
    assert out.count("Stopped at a checkpoint.") == (number == signal.SIGTERM)
    resumed = finished([*COMMAND, "epochs=12", "--resume"], tmp_path / "run")
    trained_on = {session.hardware for session in Folder(tmp_path / "run").read_results().sessions}
    assert trained_on == {"2 x CPU, 1 thread", "CPU, 1 thread"}
    for key, value in whole.items():
        torch.testing.assert_close(resumed[key], value, atol=1e-5, rtol=0)


def test_a_run_paused_within_an_epoch_is_resumed_with_two_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [*(word for word in COMMAND[2:] if word != "checkpoint_seconds=0"), "epochs=2", "batch_size=16"]
    whole = finished(["-m", "newfound", *command], tmp_path / "a" / "run")
    asked = count(1)
    with monkeypatch.context() as patch:
        patch.setattr("newfound.cli.signals.Stopping.__call__", lambda self: next(asked) >= 24)
        assert newfound(*command, "--out", tmp_path / "b" / "run").code == 0
    state = Checkpoint.load(tmp_path / "b" / "run" / "checkpoint.safetensors").state
    assert state["stage"] == "discover"
    assert state["step"] > 0
    resumed = finished(["-m", "newfound", *command, "devices=2", "--resume"], tmp_path / "b" / "run")
    for key, value in whole.items():
        torch.testing.assert_close(resumed[key], value, atol=1e-5, rtol=0)


def test_no_process_outlives_the_others(tmp_path: Path) -> None:
    leader = begun([*COMMAND, "devices=2", "epochs=1000"], tmp_path / "run")
    (follower,) = children(leader.pid)
    os.kill(follower, signal.SIGKILL)
    assert "error: Another process of this run has ended" in leader.communicate(timeout=30)[1]
    assert leader.returncode == 1
    leader = begun([*COMMAND, "devices=2", "epochs=1000", "--resume"], tmp_path / "run")
    leader.kill()
    assert not leader.communicate(timeout=30)[1]
    until = time.monotonic() + 30
    while is_alive(leader.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not is_alive(leader.pid)


def is_alive(group: int) -> bool:
    """Whether a process of the group is left."""
    with suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


def children(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
