"""Means and status of recorded runs, and the records under results/."""

from pathlib import Path

import pytest

from newfound.core.errors import RunError
from newfound.core.files import read_record, write_record
from newfound.core.registry import method_entry, recipe_for
from newfound.lab.calibrate import CalibrationRecord
from newfound.lab.paper import task_aware_acc
from newfound.lab.recorded import ACC, Measured, load_records, measured, status
from newfound.run.models import Results
from tests.lab.made import results

RECORDED = Path(__file__).parents[2] / "results"
ABOVE_KMEANS = ("comex", "dtc", "dualrank", "iic", "joint", "ncl", "openmix", "rs", "rs+", "uno-v1", "uno-v2")


def test_mean_and_spread_over_the_seeds_of_one_recipe() -> None:
    records = [results(acc=acc, seed=seed) for seed, acc in enumerate((0.90, 0.92, 0.97))]
    records.append(results(acc=0.1, seed=9, recipe="custom"))
    found = measured(records, "iic", "cifar10", ACC, "published")
    assert found is not None
    assert found.mean == pytest.approx(93.0)
    assert found.count == 3
    assert str(found) == "93.0 ± 3.6 (n = 3)"  # (9 + 1 + 16) / 2 = 3.6²
    assert str(Measured((98.765,))) == "98.8 (n = 1)"


def test_a_seed_counts_once_under_either_name() -> None:
    records = [results("uno-v2"), results("uno-v2", recipe="appendix")]
    assert str(measured(records, "uno-v2", "cifar10", ACC, "appendix")) == "90.0 (n = 1)"


def test_a_number_that_was_not_measured_is_none() -> None:
    assert measured([results()], "iic", "cifar100-20", ACC, "published") is None
    assert measured([results()], "iic", "cifar10", "task_agnostic.legacy.all", "published") is None


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    write_record(tmp_path / "cifar10" / "iic-seed0.json", results())
    assert load_records(tmp_path) == [results()]
    (tmp_path / "cifar10" / "iic-seed1.json").write_text('{"method": "iic", "ben')
    with pytest.raises(RunError, match=r"iic-seed1\.json"):
        load_records(tmp_path)


@pytest.mark.parametrize(
    ("acc", "word"),
    [
        (0.933, "reproduced"),
        (0.924, "reproduced"),
        (0.942, "reproduced"),
        (0.921, "missed"),
        (0.945, "exceeded"),
    ],
)
def test_status(acc: float, word: str) -> None:
    found = status([results("uno-v2", acc)], "uno-v2")
    assert found == f"{word} (n = 1) on cifar10: {100 * acc:.1f} against 93.3"
    assert status([results("rkd", acc)], "rkd") == f"measured on cifar10: {100 * acc:.1f} (n = 1)"
    assert status([], "iic") == "implemented"


def test_status_of_several_seeds() -> None:
    runs = [results(acc=acc, seed=seed) for seed, acc in enumerate((0.99, 0.99, 0.938))]
    assert status(runs, "iic") == "1 missed: 93.8 (n = 3) on cifar10: 97.3 ± 3.0 against 99.1"
    assert status(runs[:2], "iic") == "reproduced (n = 2) on cifar10: 99.0 ± 0.0 against 99.1"
    runs = [results("uno-v2", acc=acc, seed=seed) for seed, acc in enumerate((0.92, 0.95))]
    found = "1 missed: 92.0, 1 exceeded: 95.0 (n = 2) on cifar10: 93.5 ± 2.1 against 93.3"
    assert status(runs, "uno-v2") == found


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*/*-seed*.json")), ids=lambda path: path.stem)
def test_a_record_has_the_settings_that_its_recipe_has_now(path: Path) -> None:
    """Otherwise a table would show the numbers of another recipe under its name."""
    record = read_record(path, Results)
    if record.method == "kmeans-pixels":  # not a method of the registry
        return
    variations = method_entry(record.method).variations_for(record.benchmark)
    overrides = {**variations.get(record.recipe, {}), "seed": record.seed}
    now = recipe_for(record.method, record.benchmark, overrides).flat() | {"views": 1}  # no frozen encoder
    assert {key: now.get(key) for key in record.config} == record.config


def test_the_recorded_calibrations_can_be_read() -> None:
    for path in (RECORDED / "calibration").glob("*.json"):
        found = read_record(path, CalibrationRecord)
        assert found.chosen in [each.settings for each in found.candidates]


def test_digits_above_kmeans_as_in_the_paper() -> None:
    """Methods that the paper puts above k-means are above it on digits, in the mean."""
    kmeans = task_aware_acc("kmeans")["cifar10"]
    papers = ("kcl", "mcl", *ABOVE_KMEANS)
    assert tuple(name for name in papers if task_aware_acc(name)["cifar10"] > kmeans) == ABOVE_KMEANS
    records = load_records(RECORDED)
    means = {name: measured(records, name, "digits", ACC, "newfound") for name in ("kmeans", *ABOVE_KMEANS)}
    assert all(means.values())
    lowest = means.pop("kmeans")
    assert all(each.mean > lowest.mean for each in means.values() if each and lowest)
