"""A run that was killed at any moment and resumed ends with the same bits as one that was not."""

import io
import multiprocessing
import os
import random
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from newfound.core import dist
from newfound.core.errors import RunError, UsageError
from newfound.data import workers
from newfound.data.dataset import Dataset
from newfound.data.images import ImageSet, StreamedImages
from newfound.engine.checkpoint import Checkpoint
from newfound.engine.device import hardware
from newfound.methods.iic import IIC
from newfound.run.events import Epoch, Event, Stopped
from newfound.run.models import Session
from newfound.run.provenance import commit
from tests.tiny import CPU, stop_in, tiny_recipe, tiny_run, weights_of

pytestmark = pytest.mark.slow

KILLS = 20
CALL = [
    *(sys.executable, "-m", "newfound", "discover", "iic", "--data", "digits", "--subset", "12", "--resume"),
    *("epochs=5", "pretrain.epochs=5", "batch_size=48", "pretrain.batch_size=24", "warmup=1"),
    *("pretrain.warmup=1", "hidden=32", "projection=16", "checkpoint_seconds=0", "device=cpu"),
]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def finish(out: Path) -> Checkpoint:
    subprocess.run([*CALL, "--out", str(out)], check=True, capture_output=True, timeout=300, env=ENVIRONMENT)
    return Checkpoint.load(out / "checkpoint.safetensors")


def started(out: Path) -> multiprocessing.process.BaseProcess:
    """The same call in a process that starts with everything imported: most of its life is training."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["newfound.run.run", "sklearn.datasets", "torch._dynamo", "sympy"])
    code = (
        "import os, sys, torch; torch.set_num_threads(1); sys.stdout = sys.stderr = open(os.devnull, 'w'); "
        f"sys.argv = {['newfound', *CALL[3:], '--out', str(out)]!r}; from newfound.cli import main; main()"
    )
    process = context.Process(target=exec, args=(code,))
    process.start()
    return process


def test_sigkill_at_random_moments(tmp_path: Path) -> None:
    """Twenty kills, spread over the whole life of a run; each time it is resumed and killed again."""
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
        # It finished before the kill: begin a new one, pretraining included, and kill that.
        assert_equal(whole, Checkpoint.load(out / "checkpoint.safetensors"))
        out = tmp_path / f"b{kills}" / "killed"
    assert_equal(whole, finish(out))


def assert_equal(first: Checkpoint, second: Checkpoint) -> None:
    assert second.state["stage"] == "discover"
    assert first.state["epoch"] == second.state["epoch"]
    assert all(torch.equal(value, second.weights[key]) for key, value in first.weights.items())
    assert all(torch.equal(value, second.moments[key]) for key, value in first.moments.items())
    timed = dict.fromkeys(("seconds", "compile_seconds", "images_per_second"), 0)
    lines = [[line | timed for line in each.state["lines"]] for each in (first, second)]
    assert lines[1] == lines[0][-len(lines[1]) :]


@pytest.mark.parametrize("stage", ["pretrain", "discover"])
def test_stop_and_resume_in_either_stage(stage: str, digits: Dataset, tmp_path: Path) -> None:
    recipe = tiny_recipe("iic", epochs=3, **{"pretrain.epochs": 3})
    whole = tiny_run(tmp_path / "a" / "whole", recipe, digits)
    whole.discover()
    stop_in(stage, tiny_run(tmp_path / "b" / "run", recipe, digits))
    saved = Checkpoint.load(tmp_path / "b" / "run" / "checkpoint.safetensors").state
    assert (saved["stage"], saved["epoch"]) == (stage, 1)
    resumed = tiny_run(tmp_path / "b" / "run", recipe, digits, resume=True)
    resumed.discover()
    expected, found = weights_of(whole), weights_of(resumed)
    assert all(torch.equal(value, found[key]) for key, value in expected.items())


def test_half_written_checkpoint_does_no_harm(digits: Dataset, tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", tiny_recipe("iic"), digits)
    run.discover()
    whole, half = weights_of(run), tmp_path / "run" / ".checkpoint.safetensors.0123456789abcdef.tmp"
    half.write_bytes(b"half")
    again = tiny_run(tmp_path / "run", tiny_recipe("iic"), digits, resume=True)
    again.discover()
    assert not half.exists()
    assert all(torch.equal(value, weights_of(again)[key]) for key, value in whole.items())


def test_an_existing_run_is_not_overwritten(digits: Dataset, tmp_path: Path) -> None:
    tiny_run(tmp_path / "run", tiny_recipe("kmeans"), digits).discover()
    with pytest.raises(UsageError, match="already holds a run"):
        tiny_run(tmp_path / "run", tiny_recipe("kmeans"), digits).discover()
    other = tiny_recipe("kmeans", restarts=3, **{"known.epochs": 9})
    with pytest.raises(UsageError, match=r"other values of known\.epochs, restarts"):
        tiny_run(tmp_path / "run", other, digits, resume=True).discover()


def test_nan_stops_the_run_and_keeps_the_last_good_checkpoint(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny_run(tmp_path / "run", tiny_recipe("iic", epochs=3), digits)
    original = IIC.loss

    def spoiled(self, out, batch, clock):  # type: ignore[no-untyped-def]
        losses = original(self, out, batch, clock)
        return losses | {"ce": losses["ce"] * torch.where(clock.epoch == 1, torch.nan, 1.0)}

    monkeypatch.setattr(IIC, "loss", spoiled)
    with pytest.raises(RunError, match=r"diverged in epoch 2 of discover: ce.* = nan"):
        run.discover()
    assert_saved_after_first_epoch(run.folder.checkpoint)


def test_weights_ruined_by_the_last_step_are_not_saved(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The losses of that epoch are still finite."""
    run = tiny_run(tmp_path / "run", tiny_recipe("iic", epochs=3), digits)
    seen: list[Event] = []
    run.watch = seen.append
    after_step = IIC.after_step

    def ruin(self: IIC) -> None:
        after_step(self)
        if [each.record.stage for each in seen if isinstance(each, Epoch)].count("discover") == 1:
            self.h.prototypes.data.fill_(torch.nan)

    monkeypatch.setattr(IIC, "after_step", ruin)
    with pytest.raises(RunError, match="diverged"):
        run.discover()
    assert_saved_after_first_epoch(run.folder.checkpoint)


def assert_saved_after_first_epoch(path: Path) -> None:
    saved = Checkpoint.load(path)
    assert (saved.state["stage"], saved.state["epoch"]) == ("discover", 1)
    assert all(torch.isfinite(value).all() for value in saved.weights.values())


def test_results_say_what_trained_each_part(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three sessions of discovery: the second is like the first, the third of other code and another mode."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    recipe = tiny_recipe("iic", epochs=4)
    for _ in range(2):
        stop_in("discover", tiny_run(tmp_path / "run", recipe, digits, resume=True))
    here = {"commit": commit(), "hardware": hardware(CPU), "precision": "float32", "mode": "eager"}
    monkeypatch.setattr("newfound.run.training.commit", lambda: "later")
    monkeypatch.setattr("newfound.engine.device.resolve_mode", lambda *_, steps: "compiled")
    results = tiny_run(tmp_path / "run", recipe, digits, resume=True).discover()
    assert results.sessions == [
        Session(stage="pretrain", epoch=0, **here),
        Session(stage="discover", epoch=0, **here),
        Session(stage="discover", epoch=2, **(here | {"commit": "later", "mode": "compiled"})),
    ]


def test_compilation_is_decided_by_what_is_left_to_train(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()

    def resolved(*_: object, steps: int) -> str:
        asked.append(steps)
        return "eager"

    monkeypatch.setattr("newfound.engine.device.resolve_mode", resolved)
    recipe = tiny_recipe("iic", epochs=3)
    stop_in("discover", tiny_run(tmp_path / "run", recipe, digits))
    tiny_run(tmp_path / "run", recipe, digits, resume=True).discover()
    _, whole, rest = asked
    assert rest == 2 * whole / 3


def streamed(tar: Path, images: ImageSet) -> StreamedImages:
    """The same images in a tar file."""
    with tarfile.open(tar, "w") as file:
        for row, pixels in enumerate(images.take(torch.arange(len(images)))):
            content = io.BytesIO()
            Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(content, "PNG")
            about = tarfile.TarInfo(f"{row}.png")
            about.size = content.tell()
            content.seek(0)
            file.addfile(about, content)
    return StreamedImages([f"{tar}/{row}.png" for row in range(len(images))], images.size)


@pytest.fixture
def two_processes() -> Iterator[None]:
    """This one and one that follows it."""
    with dist.processes(2):
        yield


@pytest.mark.parametrize(
    ("method", "mode"),
    [
        *(("iic", "eager"), ("ncl", "eager"), ("dualrank", "eager")),
        *(("iic", "compiled"), ("iic", "streamed"), ("iic", "shared")),
    ],
)
def test_a_run_that_stops_after_every_step_ends_with_the_same_bits(
    method: str,
    mode: str,
    digits: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """With memories that each step fills, with images streamed from tar files, with two processes."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    if mode == "shared":
        request.getfixturevalue("two_processes")
    recipe = tiny_recipe(method, checkpoint_seconds=1e9, mode="compiled" if mode == "compiled" else "eager")
    whole = tiny_run(tmp_path / "a" / "whole", recipe, digits)
    whole.discover()
    if mode == "streamed":
        monkeypatch.setattr(workers, "FEWEST", 0)
        labelled = streamed(tmp_path / "labelled.tar", digits.split.labelled)
        unlabelled = streamed(tmp_path / "unlabelled.tar", digits.split.unlabelled)
        digits = replace(digits, split=replace(digits.split, labelled=labelled, unlabelled=unlabelled))
    stops = set()
    while True:
        run = tiny_run(tmp_path / "b" / "run", recipe, digits, resume=True)
        run.should_stop = lambda: True
        try:
            run.discover()
            break
        except Stopped:
            state = Checkpoint.load(run.folder.checkpoint).state
            stops.add((state["stage"], state["epoch"], state["step"]))
    assert len(stops) > 2 * len(recipe.train)
    assert_equal(Checkpoint.load(whole.folder.checkpoint), Checkpoint.load(run.folder.checkpoint))
    lines = [each.folder.read_metrics() for each in (whole, run)]
    assert [[*line.losses.items()] for line in lines[0]] == [[*line.losses.items()] for line in lines[1]]


@pytest.mark.parametrize("processes", [1, 2])
def test_checkpoints_within_an_epoch_lose_no_bit(
    processes: int, digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run has none, another has one after every step, and is killed right after the fifth."""
    monkeypatch.setattr("newfound.engine.trainer.ASKED_EVERY", 0.0)
    steps, save = list[int](), Checkpoint.save

    def killed(checkpoint: Checkpoint, path: Path) -> None:
        save(checkpoint, path)
        steps.append(checkpoint.state.get("step", 0))
        if steps[-1] and len([*filter(None, steps)]) == 5:
            raise InterruptedError

    with dist.processes(processes):
        whole = tiny_run(tmp_path / "a" / "run", tiny_recipe("iic", checkpoint_seconds=1e9), digits)
        whole.discover()
        run = tiny_run(tmp_path / "b" / "run", tiny_recipe("iic"), digits)
        monkeypatch.setattr(Checkpoint, "save", killed)
        with pytest.raises(InterruptedError):
            run.discover()
        assert Checkpoint.load(run.folder.checkpoint).state["step"] == steps[-1]
        run = tiny_run(tmp_path / "b" / "run", tiny_recipe("iic"), digits, resume=True)
        run.discover()
    assert_equal(Checkpoint.load(whole.folder.checkpoint), Checkpoint.load(run.folder.checkpoint))
