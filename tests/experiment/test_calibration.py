"""Which settings a calibration tries, and what it makes of how they did."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from newfound.core.errors import RunError, UsageError
from newfound.data.images import Dataset
from newfound.engine.files import write_json
from newfound.experiment import Source
from newfound.experiment.calibration import Candidate, candidates_of
from newfound.experiment.calibration_record import Results, calibration_record, check_replaceable

TRIED = {"alpha": "0.01,0.05", "beta": "0.02", "intra": "skld,mse"}


def asked(settings: Mapping[str, str] = TRIED, seeds: int = 2) -> list[Candidate]:
    return candidates_of("iic", "digits", {"device": "cpu", **settings}, seeds)[1]


def result(acc: float, seconds: float = 1.0, commit: str = "abc") -> dict[str, Any]:
    timing = {"pretrain": {"seconds": 10.0}, "discover": {"seconds": seconds}}
    return {"task_aware": {"train": {"acc": {"mean": acc}}}, "timing": timing, "commit": commit}


def recorded(dataset: Dataset, results: Results, seeds: int = 2) -> dict[str, Any]:
    settings = {"device": "cpu", "alpha": "0.01,0.05"}
    base, candidates = candidates_of("iic", "digits", settings, seeds)
    return calibration_record(base, Source("digits"), dataset, candidates, results)


def test_every_combination_is_tried_with_every_seed() -> None:
    candidates = asked()
    assert [each.name for each in candidates] == [
        f"alpha={alpha},intra={intra}" for alpha in ("0.01", "0.05") for intra in ("skld", "mse")
    ]
    for each in candidates:
        assert [recipe.run.seed for recipe in each.recipes] == [0, 1]
        assert {recipe.config.beta for recipe in each.recipes} == {0.02}
        assert each.recipes[1].flat().items() >= each.settings.items()


def test_one_value_written_twice_is_tried_once() -> None:
    assert [each.settings for each in asked({"alpha": "0.1,0.10"})] == [{"alpha": 0.1}]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"alpha": "0.1"}, "must have values to try"),
        ({"alpha": "1,1"}, "must differ; got alpha=1,1"),
        ({"alpha": "1,2", "seed": "3"}, "got seed=3 too"),
        ({"lr_falls": "0.5,0.75"}, "no commas of their own, as those of lr_falls"),
    ],
)
def test_what_cannot_be_tried(settings: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        asked(settings)


def test_the_highest_mean_is_chosen_of_those_that_finished(digits: Dataset) -> None:
    results = [result(0.2, 1.0), result(0.6, 4.0), result(0.9, 2.0, "def"), None]
    found = recorded(digits, results)
    assert found["chosen"] == {"alpha": 0.01}
    whole, failed = found["candidates"]
    assert (whole["acc"], whole["seconds"]) == ([0.2, 0.6], 2.5)
    assert whole["mean"] == pytest.approx(0.4)
    assert whole["std"] == pytest.approx(0.08**0.5)
    assert failed == {
        "settings": {"alpha": 0.05},
        "acc": [0.9, None],
        "mean": None,
        "std": None,
        "seconds": 2.0,
    }
    assert (found["commit"], found["seconds"]) == ("abc and def", 37.0)
    assert found["held_out"] == digits.class_names[5:]


def test_one_seed_has_no_spread(digits: Dataset) -> None:
    found = recorded(digits, [result(0.2), result(0.6)], seeds=1)
    assert [(each["mean"], each["std"]) for each in found["candidates"]] == [(0.2, None), (0.6, None)]
    assert found["chosen"] == {"alpha": 0.05}


def test_where_none_finished_nothing_is_chosen(digits: Dataset) -> None:
    with pytest.raises(RunError, match="none did"):
        recorded(digits, [None, result(0.5), result(0.5), None])


def test_only_the_record_of_the_same_calibration_is_replaced(digits: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    check_replaceable(path, "iic", asked({"alpha": "0.01,0.05"}))
    write_json(path, recorded(digits, [result(0.5)] * 4))
    check_replaceable(path, "iic", asked({"alpha": "0.01,0.05"}))
    for method, other in (
        ("uno-v2", asked({"alpha": "0.01,0.05"})),
        ("iic", asked({"alpha": "0.01,0.06"})),
        ("iic", asked({"alpha": "0.01,0.05"}, seeds=3)),
    ):
        with pytest.raises(UsageError, match="that of the same calibration"):
            check_replaceable(path, method, other)
