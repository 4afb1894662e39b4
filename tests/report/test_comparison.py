"""A comparison says what was measured, beside the paper's numbers, in every format."""

import csv
import io
from typing import Any

import pytest

from newfound.report.comparison import HEADINGS, as_csv, as_latex, as_markdown, compare_records


def record(method: str, acc: float, all_: float = 0.9, seconds: float = 10.0) -> dict[str, Any]:
    return {
        "method": method,
        "task_aware": {"train": {"acc": {"mean": acc}}},
        "task_agnostic": {"legacy": {"all": {"mean": all_}}},
        "timing": {"discover": {"seconds": seconds, "images": 5000}},
    }


RECORDS = [record("iic", 0.99), record("iic", 0.97, seconds=30.0), record("rs", 0.9)]


def test_a_row_has_means_over_seeds_and_what_the_paper_says() -> None:
    iic, rs = compare_records(RECORDS, "cifar10", "published").rows
    assert iic == [
        "iic",
        "published",
        "98.0 ± 1.4 (n = 2)",
        "99.1",
        "90.0 ± 0.0 (n = 2)",
        "96.6",
        "20.0",
        "333",
    ]
    assert rs == ["rs", "published", "90.0 (n = 1)", "90.4", "90.0 (n = 1)", "", "10.0", "500"]


@pytest.mark.parametrize(("benchmark", "track"), [("digits", "published"), ("cifar10", "matched")])
def test_the_paper_has_no_number_for_other_data_and_other_training(benchmark: str, track: str) -> None:
    comparison = compare_records(RECORDS, benchmark, track)
    assert all(row[3] == row[5] == "" for row in comparison.rows)
    assert all(row[1] == track for row in comparison.rows)
    assert f"{benchmark}, {track} track" in comparison.title


def test_a_method_that_trains_nothing_has_no_rate() -> None:
    untrained = {**record("kmeans", 0.7), "timing": {}}
    assert compare_records([untrained], "cifar10", "published").rows[0][-2:] == ["0.0", ""]


def test_every_format_holds_every_cell() -> None:
    comparison = compare_records(RECORDS, "cifar10", "published")
    assert list(csv.reader(io.StringIO(as_csv(comparison)))) == [list(HEADINGS), *comparison.rows]
    markdown, latex = as_markdown(comparison), as_latex(comparison)
    for row in comparison.rows:
        assert f"| {' | '.join(row)} |" in markdown
        assert " & ".join(row).replace("±", r"$\pm$") + r" \\" in latex
    assert comparison.title in markdown
    assert latex.count("&") == 3 * (len(HEADINGS) - 1)
