"""Recorded benchmarks as Markdown."""

import json
from pathlib import Path

from tools.speed import speed_section

RESULTS = Path(__file__).parents[2] / "results"


def _section(tmp_path: Path, name: str, **changes: object) -> str:
    """The section of one committed record, changed."""
    record = json.loads((RESULTS / "bench" / f"{name}.json").read_text(encoding="utf-8")) | changes
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / f"{name}.json").write_text(json.dumps(record))
    return speed_section(tmp_path)


def test_a_step_becomes_a_table(tmp_path: Path) -> None:
    ratio = {"ours_ms": 1, "straightforward_ms": 2, "times_as_long": 2}
    terms = {
        "batch_size": 512,
        "augmentation": ratio,
        "sinkhorn": ratio,
        "losses": ratio | {"times_as_long": 5.5},
    }
    text = _section(tmp_path, "h200-iic-cifar10", terms=terms)
    assert text.startswith(
        "iic, cifar10, batch 512, one run on NVIDIA H200 (`results/bench/h200-iic-cifar10.json`):\n\n"
        "| training step | ms | images/s | times as fast |\n|---|---|---|---|\n| ours, eager | 42.7 |"
    )
    assert "\n| straightforward | " in text
    assert text.endswith("batch 512: augmentation 2.0, Sinkhorn 2.0, losses 5.5.")


def test_every_method_becomes_a_table_with_its_note(tmp_path: Path) -> None:
    text = _section(tmp_path, "h200-methods", note="measured twice")
    assert "one run on NVIDIA H200 (`results/bench/h200-methods.json`)" in text
    assert "\n| `rs` | graph | 128 | " in text
    assert text.endswith("|\n\nThis was measured twice.")


def test_other_parts_become_a_table_and_a_line(tmp_path: Path) -> None:
    text = _section(
        tmp_path, "h200-parts", evaluation={"images": 70000, "seconds": 0.4, "images_per_second": 1}
    )
    assert "loops over 256 known and 256 novel images of 1,000 classes take 16,243 times as long:" in text
    assert "| times as long, captured | times as much memory |" in text
    assert "\n\nEvaluating 70,000 images with both protocols, one run on NVIDIA H200 (" in text
    assert text.endswith(": 0.4 s.")


def test_records_of_a_gpu_come_first() -> None:
    text = speed_section(RESULTS)
    assert text.index("CPU, 2 threads") > text.rindex("NVIDIA H200")
