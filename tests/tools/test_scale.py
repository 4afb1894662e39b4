"""The recorded cost of large sets as Markdown."""

from pathlib import Path
from shutil import copy
from typing import Any

from benchmarks.loader import LoaderSpeed
from benchmarks.scale import Call, Discovery, Scale
from newfound.core.files import write_record
from tools.scale import loader_section, many_section, scale_section

RESULTS = Path(__file__).parents[2] / "results"


def call(number: int, data: str = "images") -> dict[str, Any]:
    where = {"command": "", "commit": "", "hardware": "CPU, 2 threads", "load": 2.6}
    return {"data": data, "number": number, "seconds": 50, "cpu_seconds": 20, "peak_mib": 2560, **where}


def test_what_was_recorded_becomes_tables_and_arithmetic(tmp_path: Path) -> None:
    ran: dict[str, Any] = {"method": "centroids", "sample": 5000, "accuracy": 0.951}
    record = Scale(
        versions={},
        embeds=[Call(**call(10_000)), Call(**call(1_000_000))],
        discoveries=[Discovery(**call(11_000, "vectors"), **ran)],
        predictions=[Call(**call(72_000, "vectors"))],
    )
    write_record(tmp_path / "scale.json", record)
    text = scale_section(tmp_path)
    assert "2.6 to 2.6 processes" in text
    assert "\n| 10,000 | 50 | 20 | 200 | 500 | 2.5 GiB |\n| 1,000,000 | 50 | 20 | 20,000 | 50,000 |" in text
    assert "| 11,000, 384 features | `centroids` | 5,000 of the pile's 10,000 | 50 | 20 | 2.5 GiB |" in text
    assert text.endswith("\n| 72,000, 384 features | 50 | 20 | 2.5 GiB |")
    (tmp_path / "bench").mkdir()
    copy(RESULTS / "bench" / "h200-embed.json", tmp_path / "bench")
    lines = many_section(tmp_path).splitlines()
    assert lines[2] == "| embed, small encoder, 64 pixels: 50,000 images per CPU second | 1 core hours |"
    assert lines[4] == "| the vectors of `lite0`, 1,280 numbers of 2 bytes | 256 GB |"
    assert lines[6].startswith(
        "| predict: 3,600 vectors per CPU second, with the start of a call on 72,000 | 7.7"
    )


def test_the_loader_is_shown_once_it_was_measured(tmp_path: Path) -> None:
    assert "not measured" in loader_section(tmp_path)
    where = {"commit": "", "versions": {}, "hardware": "NVIDIA H200", "precision": "bf16", "mode": "graph"}
    about = {"config": {}, "seed": 0, "files": 1, "file": "JPEG", "workers": 16, "other_loader": "theirs"}
    rates = {"loader": 5000, "step": 3000.4, "both": 2900, "other_one_crop": 4000, "other_every_crop": 900}
    took = {"schedule_hours": 99.7, "compile_seconds": 1, "seconds": 2}
    record = LoaderSpeed.model_validate(where | about | rates | took)
    (tmp_path / "bench").mkdir()
    write_record(tmp_path / "loader.json", record)
    text = loader_section(tmp_path)
    assert "16 workers, one run on NVIDIA H200 (`results/loader.json`):" in text
    assert "| both together | 2,900 |\n| theirs, one crop | 4,000 |\n| theirs, all crops | 900 |" in text
    assert "would take 100 hours" in text
