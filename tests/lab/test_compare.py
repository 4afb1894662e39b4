"""A comparison shows what was measured beside the papers' numbers, in every format."""

import csv
import io

import pytest

from newfound.core.source import Source
from newfound.lab.compare import (
    COLUMNS,
    HEADINGS,
    Comparison,
    as_csv,
    as_latex,
    as_markdown,
    compare_records,
)
from newfound.run.models import Results
from tests.lab.made import results


def record(method: str, acc: float, seconds: float | None = 10.0) -> Results:
    return results(method, acc, agnostic=0.9, seconds=seconds)


RECORDS = [record("iic", 0.99), record("iic", 0.97, seconds=30.0), record("rs", 0.9)]


def compared(records: list[Results], benchmark: str = "cifar10", track: str = "published") -> Comparison:
    return compare_records(records, Source(benchmark=benchmark), track)


def test_a_row_has_means_over_seeds_and_what_the_paper_says() -> None:
    iic, rs = compared(RECORDS).rows
    assert iic.words() == [
        "iic",
        "published",
        "98.0 ± 1.4 (n = 2)",
        "99.1",
        "90.0 ± 0.0 (n = 2)",
        "96.6",
        "20.0",
        "333",
    ]
    assert rs.words() == ["rs", "published", "90.0 (n = 1)", "90.4", "90.0 (n = 1)", "", "10.0", "500"]


@pytest.mark.parametrize(
    ("benchmark", "track", "settings", "how"),
    [
        ("digits", "published", "newfound", "published track, newfound settings"),
        ("cifar10", "matched", "matched", "matched track"),
    ],
)
def test_the_paper_has_no_number_for_other_data_and_other_training(
    benchmark: str, track: str, settings: str, how: str
) -> None:
    comparison = compared(RECORDS, benchmark, track)
    assert all(row.aware_paper is row.agnostic_paper is None for row in comparison.rows)
    assert all(row.settings == settings for row in comparison.rows)
    assert comparison.title.startswith(f"{benchmark}, {how};")


def test_the_title_names_all_whose_settings_there_are() -> None:
    """NCL's paper has no values for CIFAR100-50."""
    mixed = compared([record("iic", 0.5), record("ncl", 0.5)], "cifar100-50")
    assert [row.settings for row in mixed.rows] == ["published", "newfound"]
    assert mixed.title.startswith("cifar100-50, published track, published and newfound settings;")


def test_a_method_that_trains_nothing_has_no_rate() -> None:
    assert compared([record("kmeans", 0.7, seconds=None)]).rows[0].words()[-2:] == ["0.0", ""]


def test_a_csv_has_one_number_in_a_column() -> None:
    iic, rs = csv.DictReader(io.StringIO(as_csv(compared(RECORDS))))
    assert list(iic) == list(COLUMNS)
    assert {key: value if key in COLUMNS[:2] else float(value) for key, value in iic.items()} == {
        "method": "iic",
        "settings": "published",
        "n": 2,
        "task_aware_acc_mean": 98,
        "task_aware_acc_std": 1.4142,
        "task_aware_acc_paper": 99.1,
        "task_agnostic_all_mean": 90,
        "task_agnostic_all_std": 0,
        "task_agnostic_all_paper": 96.6,
        "seconds": 20,
        "images_per_second": 333.3333,
    }
    assert (rs["n"], rs["task_aware_acc_std"], rs["task_agnostic_all_paper"]) == ("1", "", "")


def test_thousands_have_commas_for_people_only() -> None:
    fast = compared([record("iic", 0.5, seconds=0.5)])
    assert fast.rows[0].words()[-1] == "10,000"
    assert as_csv(fast).endswith(",0.5000,10000.0000\n")


def test_the_formats_for_people_hold_every_cell() -> None:
    comparison = compared(RECORDS)
    markdown, latex = as_markdown(comparison), as_latex(comparison)
    for row in comparison.rows:
        assert f"| {' | '.join(row.words())} |" in markdown
        assert " & ".join(row.words()).replace("±", r"$\pm$") + r" \\" in latex
    assert comparison.title in markdown
    assert latex.count("&") == 3 * (len(HEADINGS) - 1)
