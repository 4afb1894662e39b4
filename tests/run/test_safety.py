"""What a run refuses, so that no answer is silently wrong and no file is lost."""

import json
import logging
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen

import numpy as np
import pytest
import torch
import torch._dynamo.exc
from PIL import Image

import newfound
from newfound.core.errors import CheckpointError, RunError, UsageError
from newfound.data.dataset import Dataset
from newfound.data.images import ResidentImages
from newfound.data.loader import Draw
from newfound.engine.checkpoint import Checkpoint
from newfound.engine.step import Step
from newfound.run.folder import Folder
from newfound.run.models import Request
from newfound.run.training import State, check_same_images
from tests.tiny import stop_in, stripes, tiny_recipe, tiny_run, weights_of


@pytest.mark.parametrize(
    ("stage", "setting"), [("pretrain", "pretrain.batch_size"), ("discover", "batch_size")]
)
def test_memory_that_runs_out_is_one_error_and_keeps_the_checkpoint(
    stage: str, setting: str, digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny_run(tmp_path / "run", tiny_recipe("iic"), digits)
    call = Step.__call__

    def fail_later(self: Step, draw: Draw, following: Draw | None = None) -> None:
        if (self.loader.stage, self.clock.epoch.item()) == (stage, 1):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        call(self, draw, following)

    monkeypatch.setattr(Step, "__call__", fail_later)
    with pytest.raises(RunError, match=rf"^Out of memory in {stage}.* smaller {setting} or"):
        run.discover()
    saved = Checkpoint.load(run.folder.checkpoint)
    assert (saved.state["stage"], saved.state["epoch"]) == (stage, 1)


def test_other_images_or_class_names_are_refused(digits: Dataset, tmp_path: Path) -> None:
    tiny_run(tmp_path / "run", tiny_recipe("kmeans"), digits).discover()
    names = replace(digits, class_names=("zero", *digits.class_names[1:]))
    labels = replace(digits, split=replace(digits.split, labels=digits.split.labels.flip(0)))
    for other, what in ((names, "class names"), (labels, "images")):
        with pytest.raises(RunError, match=rf"The {what} of .* have changed"):
            tiny_run(tmp_path / "run", tiny_recipe("kmeans"), other, resume=True).discover()


def test_images_may_be_read_in_another_way_than_when_the_run_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Free memory and the number of processes decide whether they are kept in memory."""
    images, kinds = stripes()
    for row, (image, kind) in enumerate(zip(images, kinds, strict=True)):
        path = tmp_path / ("pile" if kind > 1 else f"known/{kind}") / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 255).astype(np.uint8)).save(path)
    rooms = {"memory": 2**30, "files": 0}
    for begun, other in (("memory", "files"), ("files", "memory")):
        folder = Folder(tmp_path / begun)
        for now in (begun, other):
            monkeypatch.setattr("newfound.data.folders.RESIDENT_BYTES", rooms[now])
            data = newfound.from_folders(tmp_path / "known", tmp_path / "pile", size=12)
            assert isinstance(data.split.unlabelled, ResidentImages) == (now == "memory")
            run = tiny_run(folder.path, tiny_recipe("kmeans"), data, resume=now == other)
            assert run.discover().estimate
            check_same_images(folder, data)


def test_a_step_that_cannot_be_compiled_runs_eagerly(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning says so, the results too, and the weights are those of an eager run."""

    def broken(function, **_):  # type: ignore[no-untyped-def]
        def fail(*arguments: object) -> None:
            raise torch._dynamo.exc.TorchDynamoException("a worker failed:\n\nTraceback\n  no compiler\n")

        return fail

    eager = tiny_run(tmp_path / "a" / "eager", tiny_recipe("iic"), digits)
    eager.discover()
    monkeypatch.setattr(torch, "compile", broken)
    run = tiny_run(tmp_path / "b" / "run", tiny_recipe("iic", mode="compiled"), digits)
    results = run.discover()
    assert "cannot compile the step (a worker failed: no compiler)" in caplog.text
    assert results.execution is not None
    assert set(results.execution.mode.values()) == {"eager"}
    assert all(torch.equal(value, weights_of(run)[key]) for key, value in weights_of(eager).items())


def test_what_auto_falls_back_to_is_logged_once_where_something_is_trained(
    digits: Dataset, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "newfound")
    for _ in range(2):  # the second time everything is trained already
        tiny_run(tmp_path / "run", tiny_recipe("iic", device="auto"), digits, resume=True).discover()
    assert caplog.text.count("no GPU found") == (not torch.cuda.is_available())


def test_tensorboard_shows_every_epoch(digits: Dataset, tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", tiny_recipe("iic"), digits)
    run.discover()
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = loader.EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    shown = [(each.step, each.value) for each in found.Scalars("discover/ce")]
    lines = run.folder.read_metrics()
    expected = [(row, line.losses["ce"]) for row, line in enumerate(lines, 1) if line.stage == "discover"]
    assert shown == [(row, pytest.approx(value)) for row, value in expected]


@pytest.mark.parametrize("gone", ["run", "run/tensorboard"])
def test_a_folder_that_vanishes_during_training_is_one_error(
    gone: str, digits: Dataset, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboard")
    run = tiny_run(tmp_path / "run", tiny_recipe("iic"), digits)

    def vanish(event: object) -> None:
        if (tmp_path / gone).is_dir():
            shutil.rmtree(tmp_path / gone)
        (tmp_path / gone).write_text("in the way")

    run.watch = vanish
    with pytest.raises(RunError, match="Cannot write"):
        run.discover()
    assert "Traceback" not in capfd.readouterr().err


HOLD = """
import sys
from pathlib import Path
from newfound.run.folder import Folder
with Folder(Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_locked_against_other_processes(digits: Dataset, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run")
    command = [sys.executable, "-c", HOLD, str(folder.path)]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(RunError, match="locked by another newfound process"):
            tiny_run(folder.path, tiny_recipe("kmeans"), digits).discover()
        assert not folder.config.exists()
        other.communicate()
    with folder.locked(), folder.locked():  # free again, and the same lock within one process
        pass


def test_a_finished_stage_whose_weights_are_gone_is_not_trained_again(
    digits: Dataset, tmp_path: Path
) -> None:
    """The checkpoint of the later stage would be lost."""
    run = tiny_run(tmp_path / "run", tiny_recipe("rs"), digits)
    stop_in("known", run)
    (rotnet,) = run.folder.cache.iterdir()
    rotnet.rename(tmp_path / "elsewhere")
    before = run.folder.checkpoint.read_bytes()
    resumed = tiny_run(tmp_path / "run", tiny_recipe("rs"), digits, resume=True)
    with pytest.raises(CheckpointError, match=r"weights of rotnet are gone .* saved in known"):
        resumed.discover()
    assert run.folder.checkpoint.read_bytes() == before


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("schema_version", 2, "schema_version: Input should be 1"),
        ("settings", [], "settings: "),
        ("source", {"benchmark": 3}, "source.benchmark: "),
        ("source", {"benchmark": [[[1]]]}, "source.benchmark: "),
        ("source", {"num_novel": -1}, "source.num_novel: "),
        ("versions", {"discover": 2**63}, "versions.discover: "),
        ("surprise", 1, "surprise: Extra inputs"),
    ],
)
def test_a_damaged_record_is_one_line_that_names_the_field(
    field: str, value: object, named: str, tmp_path: Path
) -> None:
    request = Request(newfound="0", method="iic", source={"benchmark": "digits"}, settings={})  # type: ignore[arg-type]
    folder = Folder(tmp_path)
    content = request.model_dump(mode="json") | {field: value}
    folder.config.write_text(json.dumps(content))
    with pytest.raises(RunError, match=named):
        folder.request()


@pytest.mark.parametrize("name", ["config.json", "results.json", "metrics.jsonl", "trust.json"])
def test_a_record_that_is_nested_too_deeply_is_one_line(name: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    (tmp_path / name).write_text('{"x":' * 100_000)
    read = {
        "config.json": folder.request,
        "results.json": folder.read_results,
        "trust.json": folder.read_trust,
    }
    with pytest.raises(RunError, match=rf"{name} is not .*recursion limit"):
        read.get(name, folder.read_metrics)()


@pytest.mark.parametrize(
    ("field", "value"),
    [("epoch", -1), ("images", [1]), ("task", {"num_known": -3, "num_novel": 1}), ("lines", [{"epoch": -1}])],
)
def test_a_damaged_state_names_the_field(field: str, value: object, digits: Dataset, tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", tiny_recipe("kmeans", **{"known.epochs": 0, "rotnet.epochs": 0}), digits)
    run.discover()
    saved = Checkpoint.load(run.folder.checkpoint)
    replace(saved, state=saved.state | {field: value}).save(run.folder.checkpoint)
    with pytest.raises(CheckpointError, match=f"not the checkpoint of a run: {field}"):
        State.load(run.folder.checkpoint)


def test_a_run_is_not_written_among_its_images(tmp_path: Path) -> None:
    (tmp_path / "pile").mkdir()
    source = {"labelled": str(tmp_path / "known"), "unlabelled": str(tmp_path / "pile")}
    request = Request(newfound="0", method="iic", source=source, settings={})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="inside the image folder"):
        Folder(tmp_path / "pile" / "run").check(request, resume=False)


def test_a_setting_that_is_newer_than_the_run_does_not_matter() -> None:
    def request(**settings: object) -> Request:
        return Request.model_validate(
            {"newfound": "0", "method": "iic", "source": {"benchmark": "digits"}, "settings": settings}
        )

    assert request(alpha=1).differences(request(alpha=1, prior="equal")) == []
    assert request(alpha=1, prior="equal").differences(request(alpha=2)) == ["alpha", "prior"]
