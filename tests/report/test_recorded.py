"""Status and means of recorded runs, from files written here."""

import json
from pathlib import Path

import pytest

from newfound.core.errors import RunError
from newfound.core.registry import method_entry, recipe_for
from newfound.report.recorded import Measured, load_records, measured, status

RESULTS = Path(__file__).parents[2] / "results"


def record(
    folder: Path, method: str, seed: int, acc: float, benchmark: str = "cifar10", recipe: str = "published"
) -> None:
    path = folder / benchmark / f"{method}-seed{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = {"task_aware": {"train": {"acc": {"mean": acc, "best_head": 0.0}}}}
    about = {"method": method, "benchmark": benchmark, "recipe": recipe, "seed": seed, "timing": {}}
    path.write_text(json.dumps({**about, **numbers}))


def test_mean_and_spread_over_the_seeds_of_one_recipe(tmp_path: Path) -> None:
    for seed, acc in enumerate((0.90, 0.92, 0.97)):
        record(tmp_path, "iic", seed, acc)
    record(tmp_path, "iic", 9, 0.1, recipe="custom")
    found = measured(load_records(tmp_path), "iic", "cifar10", "task_aware.train.acc", "published")
    assert found is not None
    assert found.mean == pytest.approx(93.0)
    assert found.count == 3
    assert found.std == pytest.approx((((3**2) + 1 + 4**2) / 2) ** 0.5)
    assert str(found) == "93.0 ± 3.6 (n = 3)"


def test_a_seed_counts_once_by_whichever_name(tmp_path: Path) -> None:
    record(tmp_path, "uno-v2", 0, 0.9)
    again = json.loads((tmp_path / "cifar10" / "uno-v2-seed0.json").read_text()) | {"recipe": "appendix"}
    records = [*load_records(tmp_path), again]
    found = measured(records, "uno-v2", "cifar10", "task_aware.train.acc", "appendix")
    assert str(found) == "90.0 (n = 1)"


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    record(tmp_path, "iic", 0, 0.9)
    (tmp_path / "cifar10" / "iic-seed1.json").write_text('{"method": "iic", "ben')
    with pytest.raises(RunError, match=r"iic-seed1\.json must be the JSON"):
        load_records(tmp_path)


def test_a_single_run_is_marked(tmp_path: Path) -> None:
    assert str(Measured(98.765, None, 1)) == "98.8 (n = 1)"


def test_what_was_not_measured_is_none(tmp_path: Path) -> None:
    record(tmp_path, "iic", 0, 0.9)
    records = load_records(tmp_path)
    assert measured(records, "iic", "cifar100-20", "task_aware.train.acc", "published") is None
    assert measured(records, "iic", "cifar10", "task_agnostic.legacy.all", "published") is None


@pytest.mark.parametrize(
    ("acc", "word"), [(0.991, "reproduced"), (0.982, "reproduced"), (0.979, "missed"), (None, "implemented")]
)
def test_status(tmp_path: Path, acc: float | None, word: str) -> None:
    if acc is not None:
        record(tmp_path, "iic", 0, acc)
    assert status(load_records(tmp_path), "iic").startswith(word)


def test_status_where_nothing_is_published(tmp_path: Path) -> None:
    record(tmp_path, "rkd", 0, 0.95)
    assert status(load_records(tmp_path), "rkd") == "measured on cifar10: 95.0 (n = 1)"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/*-seed*.json")), ids=lambda path: path.stem)
def test_a_record_has_the_settings_that_its_recipe_has_now(path: Path) -> None:
    """Otherwise a table would show, under a recipe's name, what another recipe reached."""
    record = json.loads(path.read_text(encoding="utf-8"))
    if record["method"] == "kmeans-pixels":  # not a method of the registry
        return
    variations = method_entry(record["method"]).variations_for(record["benchmark"])
    overrides = {**variations.get(record["recipe"], {}), "seed": record["seed"]}
    now = recipe_for(record["method"], record["benchmark"], overrides).flat()
    assert {key: now.get(key) for key in record["config"]} == record["config"]
