"""The results table as plain text."""

from io import StringIO

from rich.console import Console

from newfound.cli.results import Row, evaluation_tables, results_table
from newfound.metrics.report import (
    Accuracies,
    Clusters,
    Generalised,
    Recognition,
    Score,
    TaskAgnostic,
    TaskAware,
)
from tests.lab.made import results


def number(value: float | None) -> Score:
    return Score(mean=value, best_head=0.5)


SPLIT = Clusters(
    acc=number(0.9325), nmi=number(0.8717), ari=number(0.8565), per_class_accuracy=[], cluster_sizes=[]
)
SHARES = Accuracies(known=number(0.96), novel=number(1.0), all=number(0.98))
FULL = results().model_copy(
    update={
        "task_aware": TaskAware(train=SPLIT, test=SPLIT),
        "task_agnostic": TaskAgnostic(**{"legacy": SHARES, "novel-ids": SHARES, "joint": SHARES}),
    }
)


def printed(rows: list[Row], width: int = 100) -> str:
    out = StringIO()
    Console(file=out, width=width).print(results_table(rows, "digits, 5 known and 5 novel classes"))
    return out.getvalue()


def line(text: str, method: str) -> list[str]:
    return next(row for row in text.splitlines() if row.strip().startswith(method)).split()


def test_a_row_shows_the_mean_over_heads_under_its_protocol() -> None:
    text = printed([Row("iic", FULL, 12.34)])
    for words in ("task-aware", "unlabelled train", "novel test", "task-agnostic", "test, legacy", "digits"):
        assert words in text
    scores = ["93.2", "0.872", "0.857"]
    assert line(text, "iic") == ["iic", *scores, *scores, "96.0", "100.0", "98.0", "12.3"]


def test_what_was_not_measured_is_blank() -> None:
    scores = ["93.2", "0.872", "0.857"]
    pixels = FULL.model_copy(update={"task_agnostic": None})
    assert line(printed([Row("k-means", pixels)]), "k-means") == ["k-means", *scores, *scores]
    assert line(printed([Row("iic", results(agnostic=0.5))]), "iic") == ["iic", "90.0", "90.0", "50.0"]


def test_it_is_plain_text_that_fits_a_terminal() -> None:
    text = printed([Row("k-means (raw pixels)", FULL, 1234.5)], width=80)
    assert "\x1b" not in text
    assert "…" not in text
    assert max(len(row) for row in text.splitlines()) <= 80


def test_a_mixed_pile_is_told_by_its_own_protocol() -> None:
    found = Recognition(**dict(SHARES), recognised=number(0.97), mistaken=number(0.04))
    mixed = FULL.model_copy(update={"generalised": Generalised(train=found, test=found)})
    text = printed([Row("gcd", mixed)])
    assert "generalised" in text
    accuracies = ["96.0", "100.0", "98.0"]
    assert line(text, "gcd") == ["gcd", *accuracies, *accuracies, "93.2", "0.872", "0.857"]
    assert "novel as known" in str([column.header for column in evaluation_tables(mixed)[-1].columns])
