"""What a run refuses, so that no answer is silently wrong and no file is lost."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch._dynamo.exc

from newfound.core.errors import CheckpointError, RunError, UsageError
from newfound.data.images import Dataset
from newfound.data.loader import Draw
from newfound.engine.checkpoint import Checkpoint
from newfound.engine.step import Step
from newfound.experiment.check import check_run
from newfound.experiment.finish import finish
from newfound.experiment.run import Run, Stopped
from newfound.methods.iic import IIC
from tests.tiny import tiny_recipe, tiny_run


def test_weights_ruined_by_the_last_step_are_not_saved(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The losses of that epoch are still finite."""
    run = tiny_run(tmp_path / "run", tiny_recipe("iic", epochs=3), digits)
    seen = []
    run.watch = lambda record, scores: seen.append(record)
    after_step = IIC.after_step

    def ruin(self: IIC) -> None:
        after_step(self)
        if [record.stage for record in seen].count("discover") == 1:
            self.h.prototypes.data.fill_(torch.nan)

    monkeypatch.setattr(IIC, "after_step", ruin)
    with pytest.raises(RunError, match="must stay finite"):
        run.discover(tmp_path / "cache")
    saved = Checkpoint.load(run.folder.checkpoint)
    assert (saved.state["stage"], saved.state["epoch"]) == ("discover", 1)
    assert all(weight.isfinite().all() for weight in saved.weights.values())


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
    with pytest.raises(RunError, match=rf"^{stage} must fit into memory; .* kept: .* smaller {setting} or"):
        run.discover(tmp_path / "cache")
    saved = Checkpoint.load(run.folder.checkpoint)
    assert (saved.state["stage"], saved.state["epoch"]) == (stage, 1)


def test_other_errors_of_torch_stay_what_they_are(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(Step, "__call__", fail)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        tiny_run(tmp_path / "run", tiny_recipe("iic"), digits).discover(tmp_path / "cache")


def test_changed_images_are_not_resumed(digits: Dataset, tmp_path: Path) -> None:
    recipe = tiny_recipe("iic", epochs=1)
    tiny_run(tmp_path / "run", recipe, digits).discover(tmp_path / "cache")
    changed = replace(digits, split=replace(digits.split, labels=digits.split.labels.flip(0)))
    with pytest.raises(UsageError, match="those that the run began with"):
        tiny_run(tmp_path / "run", recipe, changed, resume=True)


@pytest.mark.parametrize(
    "name", ["checkpoint.safetensors", "metrics.jsonl", "results.json", "assignments.csv"]
)
@pytest.mark.parametrize("resume", [False, True])
def test_files_of_an_unknown_run_are_left_alone(
    name: str, resume: bool, digits: Dataset, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("precious")
    with pytest.raises(UsageError, match=f"holds {name} of some other run"):
        tiny_run(tmp_path, tiny_recipe("iic"), digits, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_names_of_novel_classes_are_never_those_of_known_ones(digits: Dataset, tmp_path: Path) -> None:
    named = replace(digits, class_names=("novel-1", "b", "c", "d", "e", *digits.class_names[5:]))
    run = tiny_run(tmp_path / "run", tiny_recipe("kmeans"), named)
    finish(run, run.discover(tmp_path / "cache"))
    rows = run.folder.assignments.read_text().splitlines()[1:]
    assert {row.split(",")[1] for row in rows} <= {f"novel-{index}" for index in range(2, 7)}


def test_a_step_that_cannot_be_compiled_runs_eagerly(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says so, the record too, and the weights are those of an eager run."""

    def broken(function, **_):  # type: ignore[no-untyped-def]
        def fail(*arguments: object) -> None:
            raise torch._dynamo.exc.TorchDynamoException("a worker failed:\n\nTraceback\n  no compiler\n")

        return fail

    eager = tiny_run(tmp_path / "eager", tiny_recipe("iic"), digits).discover(tmp_path / "a").state_dict()
    monkeypatch.setattr(torch, "compile", broken)
    run = tiny_run(tmp_path / "run", tiny_recipe("iic", mode="compiled"), digits)
    said: list[str] = []
    run.say = said.append
    weights = run.discover(tmp_path / "b").state_dict()
    assert [line for line in said if "cannot be compiled here (a worker failed: no compiler)" in line]
    assert set(run.account.modes.values()) == {"eager"}
    assert all(torch.equal(value, weights[key]) for key, value in eager.items())


def test_compiling_is_announced_only_where_something_is_left_to_train(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for k-means, which has no epochs, nor the second time, when all is trained already."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    for method, stages in (("kmeans", ["rotnet", "known"]), ("iic", ["pretrain", "discover"])):
        recipe, told = tiny_recipe(method, mode="compiled"), list[str]()
        for _ in range(2):
            run = tiny_run(tmp_path / method, recipe, digits, resume=True)
            run.say = told.append
            run.discover(tmp_path / "cache")
        assert [line.split(":")[0] for line in told if "compiling" in line] == stages


def test_a_run_that_goes_on_is_as_long_as_what_is_left_of_it(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that nothing is compiled for the last few epochs."""
    asked = list[int]()

    def resolved(*_: object, steps: int) -> str:
        asked.append(steps)
        return "eager"

    monkeypatch.setattr("newfound.experiment.run.resolve_mode", resolved)
    recipe = tiny_recipe("iic", epochs=3)
    run = tiny_run(tmp_path / "run", recipe, digits)
    run.should_stop = lambda: "discover" in run.account.timing
    with pytest.raises(Stopped):
        run.discover(tmp_path / "cache")
    tiny_run(tmp_path / "run", recipe, digits, resume=True).discover(tmp_path / "cache")
    _, whole, rest = asked
    assert rest == 2 * whole / 3


def test_what_auto_falls_back_to_is_said_once_where_something_is_trained(
    digits: Dataset, tmp_path: Path
) -> None:
    recipe, told = tiny_recipe("iic", device="auto"), list[str]()
    for _ in range(2):  # the second time all is trained already
        run = tiny_run(tmp_path / "run", recipe, digits, resume=True)
        run.say = told.append
        run.discover(tmp_path / "cache")
    here = ["there is no GPU that torch can use, so the CPU trains"] * (not torch.cuda.is_available())
    assert [line for line in told if "no GPU" in line] == here


def test_a_network_of_pairs_needs_two_images(digits: Dataset) -> None:
    """Before anything is trained: its BatchNorm has nothing to say of one pair."""
    with pytest.raises(UsageError, match="at least 2 images of each kind that kcl trains on; got 1"):
        check_run(tiny_recipe("kcl", batch_size=1), digits.split)


def test_a_run_of_an_earlier_version_can_go_on(digits: Dataset, tmp_path: Path) -> None:
    """Its config lacks the settings that are new since."""
    run = tiny_run(tmp_path / "run", tiny_recipe("iic"), digits)
    config = json.loads(run.folder.config.read_text())
    del config["settings"]["weights"]
    run.folder.config.write_text(json.dumps(config))
    tiny_run(tmp_path / "run", tiny_recipe("iic"), digits, resume=True)
    with pytest.raises(UsageError, match="other values for weights"):
        tiny_run(tmp_path / "run", tiny_recipe("iic", weights="x.pth"), digits, resume=True)


def test_a_run_is_trained_by_one_process_at_a_time(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock of another process is pretended; before anything in the folder is touched."""
    folder = tiny_run(tmp_path / "run", tiny_recipe("iic"), digits).folder
    left_over = folder.path / ".metrics.jsonl.1.tmp"
    left_over.write_text("of the other process")

    def held(*_: object) -> None:
        raise BlockingIOError

    monkeypatch.setattr("fcntl.flock", held)
    with pytest.raises(UsageError, match="one process at a time"):
        tiny_run(tmp_path / "run", tiny_recipe("iic"), digits, resume=True)
    assert left_over.exists()
    with pytest.raises(UsageError, match="one process at a time"):
        Run(folder, digits, tiny_recipe("iic"))


def test_a_finished_stage_whose_weights_are_gone_is_not_trained_again(
    digits: Dataset, tmp_path: Path
) -> None:
    """The checkpoint of the later stage would be lost."""
    run = tiny_run(tmp_path / "run", tiny_recipe("rs"), digits)
    run.should_stop = lambda: "known" in run.account.timing
    with pytest.raises(Stopped):
        run.pretrain(tmp_path / "cache")
    (rotnet,) = (tmp_path / "cache").iterdir()
    rotnet.rename(tmp_path / "elsewhere")
    before = run.folder.checkpoint.read_bytes()
    resumed = tiny_run(tmp_path / "run", tiny_recipe("rs"), digits, resume=True)
    with pytest.raises(CheckpointError, match=r"weights of rotnet must be in .* was saved in known"):
        resumed.pretrain(tmp_path / "cache")
    assert run.folder.checkpoint.read_bytes() == before
