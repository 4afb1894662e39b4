"""The paper's tables: every published number has a place, and ours stand beside them."""

import pytest

from newfound.core.registry import changes_nothing, method_entry, method_names
from newfound.lab.paper import task_aware_acc
from newfound.lab.tables import TABLES, PaperTable
from newfound.run.models import Results
from tests.lab.made import results


def record(method: str, recipe: str, benchmark: str, acc: float, nmi: float = 0.9) -> Results:
    return results(method, acc, recipe=recipe, benchmark=benchmark, nmi=nmi, agnostic=acc)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_every_line_has_a_number_for_every_column(table: PaperTable) -> None:
    for line in table.lines:
        assert len(line.published.split()) == len(table.columns)


def test_recipes_of_the_tables_can_be_run() -> None:
    """Each registered method has the variation that a table asks of it."""
    for table in TABLES:
        for line in table.lines:
            if line.method in method_names() and line.recipe != "published":
                assert line.recipe in method_entry(line.method).variations_for("cifar10")


def test_ours_stand_beside_the_papers() -> None:
    records = [
        record("iic", "published", "cifar10", 0.9912, 0.9651),
        record("iic", "inter-only", "cifar10", 0.99, 0.96),
        record("iic", "custom", "cifar10", 0.1, 0.1),
        record("iic", "published", "imagenet-30-a", 0.90, 0.9),
        record("iic", "published", "imagenet-30-b", 0.92, 0.9),
        record("iic", "published", "imagenet-30-c", 0.94, 0.9),
        record("ncl", "published", "imagenet-30-a", 0.90, 0.9),
    ]
    ablation, _, aware, agnostic, *_ = (table.markdown(records) for table in TABLES)
    assert (
        "| inter-class yes, intra-class yes | 99.1 (n = 1) [99.11] | 0.9651 (n = 1) [.9657] | [.9780] |"
        in ablation
    )
    assert "| inter-class yes, intra-class no | 99.0 (n = 1) [99.07] |" in ablation
    assert "| inter-class no, intra-class no | [93.25] |" in ablation
    assert "| iic | 99.1 (n = 1) [99.1±0.0] | [92.4±0.2] | [65.8±0.9] | 92.0 (n = 1) [91.9] |" in aware
    assert "| openmix | [95.3] |  |  | [85.7] |" in aware
    assert "| ncl | [93.4±0.5] | [86.6±0.4] |  | [90.7] |" in aware
    assert "| iic | [96.0] | [97.2] | 99.1 (n = 1) [96.6] |" in agnostic


def test_seeds_far_from_the_paper_are_counted_on_both_sides() -> None:
    runs = [results("iic", acc, recipe="fast", seed=seed) for seed, acc in enumerate((0.938, 0.99))]
    aware = TABLES[2].markdown(runs)
    assert "| iic, fast | 96.4 ± 3.7 (n = 2) [99.1±0.0], 1 missed: 93.8 |  |  |  |" in aware
    assert "| iic, fast | 99.0 (n = 1) [99.1±0.0] |" in TABLES[2].markdown(runs[1:])
    assert "| iic, fast | 93.8 (n = 1) [99.1±0.0], missed |" in TABLES[2].markdown(runs[:1])
    above = [record("ncl", "published", "cifar10", 0.95)]
    assert "| ncl | 95.0 (n = 1) [93.4±0.5], exceeded |" in TABLES[2].markdown(above)


def test_the_papers_mean_without_its_spread() -> None:
    assert task_aware_acc("openmix") == {"cifar10": 95.3, "imagenet-30": 85.7}
    assert task_aware_acc("iic")["cifar100-20"] == 92.4
    assert task_aware_acc("unheard-of") == {}


def test_a_published_run_counts_for_a_variation_that_changes_nothing() -> None:
    records = [record("iic", "published", name, 0.654) for name in ("cifar100-20", "cifar100-50")]
    (table,) = (table for table in TABLES if table.title.startswith("More novel classes"))
    (line,) = (line for line in table.markdown(records).splitlines() if line.startswith("| iic"))
    assert line.count("(n = 1)") == 1
    assert "65.4 (n = 1) [65.8±0.9]" in line


@pytest.mark.parametrize("benchmark", ["cifar100-30", "cifar100-50", "cifar100-80"])
def test_what_reproduce_records_of_more_novel_classes_is_shown(benchmark: str) -> None:
    """The variation changes nothing there, so the record has the name of the usual recipe."""
    assert changes_nothing("iic", benchmark, "appendix")
    usual = record("iic", method_entry("iic").values_for(benchmark)[0], benchmark, 0.7, 0.7)
    (table,) = (table for table in TABLES if table.title.startswith("More novel classes"))
    assert "70.0 (n = 1)" in table.markdown([usual])


def test_the_appendix_has_weights_of_its_own_for_an_unknown_number() -> None:
    (table,) = (table for table in TABLES if table.title.startswith("Unknown number"))
    runs = [
        record("iic", "published", "cifar100-20", 0.92, 0.9),
        record("iic", "appendix", "cifar100-20", 0.91, 0.9),
        record("iic", "estimated", "cifar100-20", 0.85, 0.9),
        record("uno-v2", "published", "cifar100-20", 0.90, 0.9),
    ]
    lines = table.markdown(runs).splitlines()
    assert "| iic | 91.0 (n = 1) [92.4±0.2], missed | 85.0 (n = 1) [85.1±0.9] |" in lines
    assert "| uno-v2 | 90.0 (n = 1) [90.5±0.7] | [71.5±1.8] |" in lines
