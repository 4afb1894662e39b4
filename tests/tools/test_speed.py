"""Recorded benchmarks as Markdown, from files written here."""

import json
from pathlib import Path

from tools.speed import speed_section


def test_a_bench_of_a_step_becomes_a_table(tmp_path: Path) -> None:
    ours, theirs = ({"ms": ms, "images_per_second": 16000 / ms} for ms in (50.0, 125.0))
    times = {"augmentation": 1.44, "sinkhorn": 2, "losses": 5.5}
    record = {
        **{"method": "iic", "benchmark": "cifar10", "hardware": "CPU, 2 threads", "baseline": theirs},
        "step": {"batch_size": 16, "modes": {"eager": ours}},
        "terms": {"batch_size": 512} | {key: {"times_as_long": value} for key, value in times.items()},
    }
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "cpu-iic.json").write_text(json.dumps(record))
    text = speed_section(tmp_path)
    assert text.startswith(
        "iic, cifar10, batch 16, one run on CPU, 2 threads (`results/bench/cpu-iic.json`):"
    )
    assert "| ours, eager | 50.0 | 320 | 2.5 |\n| straightforward | 125.0 | 128 | 1.0 |" in text
    assert text.endswith("batch 512: augmentation 1.4, Sinkhorn 2.0, losses 5.5.")


def test_a_bench_of_every_method_becomes_a_table(tmp_path: Path) -> None:
    way = {"mode": "graph", "batch_size": 128, "ms": 2.345, "images_per_second": 54584.2}
    record = {"benchmark": "cifar10", "hardware": "NVIDIA H200", "methods": {"rs": way}}
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "h200-methods.json").write_text(json.dumps(record))
    text = speed_section(tmp_path)
    assert "one run on NVIDIA H200 (`results/bench/h200-methods.json`)" in text
    assert text.endswith("| `rs` | graph | 128 | 2.3 | 54,584 |")


def test_other_parts_of_a_bench_become_a_table_and_a_line(tmp_path: Path) -> None:
    product = {"times_as_long": 0.9, "graph_times_as_long": 0.81, "times_as_much_memory": 10.09}
    small = {"N": 256, "M": 256, "C": 10, "matrix_product": product, "loops": {"times_as_long": 15684.5}}
    large = {"N": 4096, "M": 4096, "C": 1000, "matrix_product": product | {"graph_times_as_long": 6.97}}
    evaluation = {"images": 50000, "seconds": 0.496}
    record = {"hardware": "NVIDIA H200", "inter": [small, large], "evaluation": evaluation}
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "h200-parts.json").write_text(json.dumps(record))
    text = speed_section(tmp_path)
    assert "loops over 256 known and 256 novel images of 10 classes take 15,684 times as long:" in text
    assert "| 256 | 10 | 0.8 | 10.1 |\n| 4,096 | 1,000 | 7.0 | 10.1 |" in text
    assert text.endswith("(`results/bench/h200-parts.json`): 0.5 s.")
