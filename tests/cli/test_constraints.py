"""The plug-in from the command line: on for a method with joint logits, refused for the others."""

import json
from pathlib import Path

import pytest

from tests.cli.calls import DIGITS, TINY, refused, works

ON = ("constraints.alpha=0.01", "constraints.beta=0.01")


def test_uno_with_constraints() -> None:
    works("discover", "uno-v1", *DIGITS, *TINY, *ON, "--out", "run")
    last = json.loads(Path("run/metrics.jsonl").read_text().splitlines()[-1])
    assert list(last["losses"]) == ["ce", "over", "constraints.inter", "constraints.intra"]
    config = json.loads(Path("run/results.json").read_text())["config"]
    assert (config["constraints.alpha"], config["constraints.beta"], config["constraints.form"]) == (
        0.01,
        0.01,
        "full",
    )


@pytest.mark.parametrize("method", ["kmeans", "rs", "openmix"])
def test_methods_without_joint_logits_are_refused_before_anything_is_written(method: str) -> None:
    words = (
        f"constraints.beta must be 0 for {method}",
        "no cosines of known and novel",
        "0.01 and 0.01",
        "leave them out",
    )
    refused(2, ("discover", method, *DIGITS, "device=cpu", *ON, "--out", "out/run"), *words)
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("constraints.form=half", ("constraints.form", "'full'", "'cross'", "'half'")),
        ("constraints.alpha=-1", ("constraints.alpha", "greater than or equal to 0", "'-1'")),
        ("constraint.alpha=1", ("unknown setting 'constraint.alpha'", "'constraints.alpha'")),
    ],
)
def test_settings(setting: str, words: tuple[str, ...]) -> None:
    refused(2, ("discover", "uno-v1", *DIGITS, *TINY, setting, "--out", "out/run"), *words)
    assert not list(Path().iterdir())


@pytest.mark.parametrize("weight", ["alpha", "beta"])
def test_a_method_that_has_the_term_itself_gets_it_once(weight: str) -> None:
    call = ("discover", "iic", *DIGITS, *TINY, f"constraints.{weight}=0.1")
    refused(2, call, f"constraints.{weight} must be 0 for iic", "has that term itself", "term off first")
    works(*call, f"{weight}=0", "--out", "run")


def test_a_form_without_effect_is_told() -> None:
    call = ("discover", "uno-v1", *DIGITS, *TINY, "constraints.form=cross", "constraints.beta=0.1")
    assert "constraints.form has no effect without constraints.alpha" in works(*call, "--out", "run")
