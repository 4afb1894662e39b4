"""The lines a run writes as it goes."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from newfound.engine.log import RunLog
from newfound.engine.trainer import EpochRecord


def record(epoch: int, stage: str = "discover") -> EpochRecord:
    return EpochRecord(stage, epoch, 9, 0.1, {"ce": 1.5, "over": 0.5}, [1.0, 2.0], 3.0, 40.0)


def lines(log: RunLog) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.path.read_text().splitlines()]


def test_a_line_for_each_epoch(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.epoch(record(0, "pretrain"), {})
    log.epoch(record(0), {"task_aware.train.acc": 0.75})
    log.close()
    assert log.path == tmp_path / "metrics.jsonl"
    assert lines(log) == log.lines
    assert log.lines[1] == {
        "stage": "discover",
        "epoch": 0,
        "lr": 0.1,
        "losses": {"ce": 1.5, "over": 0.5},
        "head_losses": [1.0, 2.0],
        "seconds": 3.0,
        "images_per_second": 40.0,
        "compile_seconds": 0.0,
        "scores": {"task_aware.train.acc": 0.75},
    }


def test_what_the_checkpoint_does_not_know_is_forgotten(tmp_path: Path) -> None:
    first = RunLog(tmp_path)
    for epoch in range(5):
        first.epoch(record(epoch), {})
    second = RunLog(tmp_path)
    known = first.lines[:3]
    second.restore(known)
    assert lines(second) == first.lines[:3]
    for epoch in (3, 4):
        second.epoch(record(epoch), {})
    assert lines(second) == first.lines
    assert known == first.lines[:3]


def test_restoring_nothing_leaves_an_empty_file(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.epoch(record(0), {})
    log.restore([])
    assert (lines(log), log.lines) == ([], [])


class FakeBoard:
    def __init__(self) -> None:
        self.points: list[tuple[str, float, int]] = []
        self.closed = False

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.points.append((name, value, step))

    def close(self) -> None:
        self.closed = True


def test_tensorboard_gets_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = FakeBoard()
    monkeypatch.setattr("newfound.engine.log._tensorboard", lambda folder, step: board)
    log = RunLog(tmp_path)
    log.restore([{}] * 4)
    log.epoch(record(0), {"acc": 0.5})
    log.close()
    assert board.points == [
        ("discover/ce", 1.5, 5),
        ("discover/over", 0.5, 5),
        ("discover/acc", 0.5, 5),
        ("discover/lr", 0.1, 5),
    ]
    assert board.closed


def test_a_run_works_without_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    log = RunLog(tmp_path)
    log.epoch(record(0), {})
    log.close()
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]
