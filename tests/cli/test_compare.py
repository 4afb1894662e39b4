"""`newfound compare` runs what is missing and shows one table."""

import csv
import gc
import json
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from newfound.core import registry
from newfound.core.learner import Learner
from newfound.data.loader import Draw
from newfound.engine.step import Step
from tests.cli.calls import newfound, refused, works
from tests.tiny import NARROW, STAGE, TINY

CALL = ("compare", "uno-v1", "uno-v2", "--data", "digits", "--subset", "8")


def test_methods_side_by_side_reusing_what_is_there(tmp_path: Path) -> None:
    out = works(*CALL)
    place = tmp_path / "runs" / "compare" / "digits-8-of-each" / "published"
    assert "of each class, published track, newfound settings" in " ".join(out.split())
    assert "published settings" not in out
    assert "reusing" in out
    for suffix in ("csv", "md", "tex"):
        assert "uno-v2" in (place / f"comparison.{suffix}").read_text()
    first = json.loads((place / "uno-v2-seed0" / "results.json").read_text())
    assert first["timing"]["discover"]["images"] > 0
    again = works(*CALL)
    assert "images/s  ce" not in again
    reused = (
        f"reused from {place.relative_to(tmp_path)}: uno-v1-seed0, uno-v2-seed0; delete a folder there to"
    )
    assert reused in again
    assert "reused from" not in out
    _the_files_hold_every_run_of_the_folder(place)
    _runs_of_other_code_are_told(place)
    _a_damaged_record_is_named(place)


def _runs_of_other_code_are_told(place: Path) -> None:
    """Whether they are asked for or only lie in the folder; a run of an earlier version says nothing."""
    config = place / "uno-v1-seed0" / "config.json"
    began = json.loads(config.read_text())
    config.write_text(json.dumps(began | {"digest": "0123"}))
    refused(2, CALL, "the code of uno-v1 has changed since", "uno-v1-seed0 began", "delete that folder")
    works("compare", "uno-v2", *CALL[3:])
    assert "uno-v1" not in (place / "comparison.csv").read_text()
    del began["digest"]
    config.write_text(json.dumps(began))
    works(*CALL)
    assert "uno-v1" in (place / "comparison.csv").read_text()


def _a_damaged_record_is_named(place: Path) -> None:
    damaged = place / "uno-v2-seed10" / "results.json"
    damaged.write_bytes(damaged.read_bytes()[:1000])
    refused(1, CALL, str(damaged.relative_to(Path.cwd())), "must be the JSON", "remove it")


def _the_files_hold_every_run_of_the_folder(place: Path) -> None:
    """The terminal shows what was asked for; runs on other images or with other settings stay out."""
    copy_run(place / "uno-v2-seed0", seed=10)
    copy_run(place / "uno-v2-seed0", seed=11, subset=9)
    copy_run(place / "uno-v2-seed0", seed=12, lr=0.5)
    out = works("compare", "uno-v1", "--data", "digits", "--subset", "8")
    assert "uno-v2" not in out
    assert "at most 8 images of each class" in out
    rows = list(csv.DictReader((place / "comparison.csv").open(newline="")))
    assert [(row["method"], row["settings"], row["n"]) for row in rows] == [
        ("uno-v1", "newfound", "1"),
        ("uno-v2", "newfound", "2"),
    ]
    assert [row["task_aware_acc_std"] for row in rows] == ["", "0.0000"]


def copy_run(folder: Path, seed: int, subset: int = 8, **settings: float) -> None:
    """The results of a run once more, as those of another."""
    results = json.loads((folder / "results.json").read_text())
    results |= {"seed": seed, "subset": subset, "config": results["config"] | {"seed": seed} | settings}
    results["config"].pop("weights", None)  # as an earlier version wrote it, which had no such setting
    copy = folder.with_name(f"{results['method']}-seed{seed}")
    copy.mkdir()
    (copy / "results.json").write_text(json.dumps(results))


def test_a_method_that_runs_out_of_memory_gives_way_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had trained is gone by then, though no collection of garbage was due."""
    quick = {"digits": TINY | NARROW | {f"pretrain.{key}": value for key, value in STAGE.items()}}
    for name in ("uno-v1", "uno-v2"):
        monkeypatch.setitem(registry._METHODS, name, replace(registry.method_entry(name), ours=quick))
    call, failed = Step.__call__, list[weakref.ref[Learner]]()

    def fail_once(self: Step, draw: Draw, following: Draw | None = None) -> None:
        if self.loader.stage == "discover" and not failed:
            failed.append(weakref.ref(self.learner))
            raise torch.OutOfMemoryError("CUDA out of memory")
        assert not failed or failed[0]() is None
        call(self, draw, following)

    monkeypatch.setattr(Step, "__call__", fail_once)
    gc.disable()
    try:
        done = newfound(*CALL)
    finally:
        gc.enable()
    assert done.code == 1
    assert "uno-v1 seed 0: failed: discover must fit into memory" in done.out
    assert "these failed: uno-v1 seed 0" in done.err
    table = tmp_path / "runs" / "compare" / "digits-8-of-each" / "published" / "comparison.csv"
    assert [row["method"] for row in csv.DictReader(table.open(newline=""))] == ["uno-v2"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("iic", "epochs=2", "--data", "digits"), ("its own settings", "got epochs=2", "newfound discover")),
        (("iic", "icc", "--data", "digits"), ("unknown method 'icc'", "'iic'")),
        (("iic", "--data", "digits", "--track", "fair"), ("track", "'published' or 'matched'", "'fair'")),
        (("iic", "--data", "digits", "--seeds", "0"), ("--seeds",)),
        (("iic",), ("--data",)),
    ],
)
def test_bad_calls_write_nothing(call: tuple[str, ...], words: tuple[str, ...], tmp_path: Path) -> None:
    refused(2, ("compare", *call), *words)
    assert not list(tmp_path.iterdir())
