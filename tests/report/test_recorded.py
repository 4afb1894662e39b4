"""Status and means of recorded runs, from files written here."""

import json
from pathlib import Path

import pytest

from newfound.core.registry import method_entry, recipe_for
from newfound.report.readme import digits_section, generated, methods_section
from newfound.report.recorded import Measured, load_records, measured, status
from newfound.report.speed import speed_section

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


def test_generated_parts_replace_only_what_is_between_their_marks(tmp_path: Path) -> None:
    record(tmp_path, "iic", 0, 0.97, benchmark="digits", recipe="newfound")
    text = "a\n<!-- methods -->\nold\n<!-- /methods -->\nb\n<!-- digits -->\n\n<!-- /digits -->\nc"
    new = generated(text, tmp_path)
    assert new.startswith("a\n<!-- methods -->\n| method")
    assert "old" not in new
    assert "| IIC | 97.0 (n = 1) |  |  |" in new
    assert generated(new, tmp_path) == new
    assert methods_section(load_records(tmp_path)) in new
    assert digits_section(load_records(tmp_path)) in new


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/*-seed*.json")), ids=lambda path: path.stem)
def test_a_record_has_the_settings_that_its_recipe_has_now(path: Path) -> None:
    """Otherwise a table would show, under a recipe's name, what another recipe reached."""
    record = json.loads(path.read_text(encoding="utf-8"))
    if record["method"] == "kmeans-pixels":  # not a method of the registry
        return
    variations = method_entry(record["method"]).variations
    overrides = {**variations.get(record["recipe"], {}), "seed": record["seed"]}
    now = recipe_for(record["method"], record["benchmark"], overrides).flat()
    assert {key: now.get(key) for key in record["config"]} == record["config"]


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
