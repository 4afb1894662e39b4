"""The generated sections of the pages, from one recorded run."""

from pathlib import Path
from shutil import copy

from newfound.lab.recorded import load_records
from tools.readme import catalogue_section, digits_section, generated, iic_section, methods_section

RESULTS = Path(__file__).parents[2] / "results"


def test_only_the_text_between_the_marks_is_replaced() -> None:
    text = "a\n<!-- one -->\nold\n<!-- /one -->\nb\n<!-- two -->\n<!-- /two -->\nc"
    parts = {"one": "| 1 |", "two": "| 2 |", "three": "| 3 |"}
    new = generated(text, parts)
    assert new == "a\n<!-- one -->\n| 1 |\n<!-- /one -->\nb\n<!-- two -->\n| 2 |\n<!-- /two -->\nc"
    assert generated(new, parts) == new


def test_sections_show_what_was_recorded(tmp_path: Path) -> None:
    for benchmark in ("digits", "cifar10"):
        (tmp_path / benchmark).mkdir()
        copy(RESULTS / benchmark / "iic-seed0.json", tmp_path / benchmark)
    records = load_records(tmp_path)
    assert "| IIC | 9" in digits_section(records)
    assert "| mixed, novel | implemented |" in methods_section(records)
    assert "| `comex` | " in methods_section(records)
    assert "reproduced (n = 1) on cifar10: 99.1 against 99.1 |" in methods_section(records)
    assert iic_section(records).splitlines()[2:] == [
        "| cifar10 | 99.1 (n = 1) | 99.1±0.0 | 96.6 (n = 1) | 96.6 | 0 | 0 of 1 |"
    ]
    assert "| 99.1 (n = 1) [99.1±0.0] | 0 |" in catalogue_section(records)
    assert "| [95.3] |  |" in catalogue_section(records)
