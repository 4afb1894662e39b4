"""The call that repeats a run, from its folder."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from newfound.core.registry import recipe_for
from newfound.experiment import Folder, Source
from newfound.experiment.call import call_of


def called(folder: Path, source: Source, **settings: Any) -> str | None:
    run = Folder(folder / "my run")
    run.open(source, recipe_for("iic", source.name, settings), resume=False)
    call = call_of(run)
    return call and call.replace(str(folder), "HERE").replace(f"{os.getcwd()}/", "")


@pytest.mark.parametrize(
    ("source", "settings", "expected"),
    [
        (Source("digits"), {}, "newfound discover iic --data digits --out 'HERE/my run'"),
        (
            Source("cifar10", "my data", 20),
            {"alpha": 0.0, "seed": 3},
            "newfound discover iic alpha=0.0 seed=3 --data cifar10 --data-dir 'my data' --subset 20 "
            "--out 'HERE/my run'",
        ),
        (
            Source(labelled="a", unlabelled="b", num_novel=7, size=32, strict=True),
            {"track": "matched"},
            "newfound discover iic track=matched --labelled a --unlabelled b --num-novel 7 --size 32 "
            "--strict --out 'HERE/my run'",
        ),
        (
            Source(labelled="a", unlabelled="b", num_novel=7, estimated="gcd"),
            {},
            "newfound discover iic estimate.algorithm=gcd --labelled a --unlabelled b --num-novel auto "
            "--out 'HERE/my run'",
        ),
        (Source("digits", held_out=2), {}, None),
        (Source(arrays="f00"), {}, None),
        (Source("cifar100-20", num_novel=23, estimated="the paper's"), {}, None),
    ],
    ids=["benchmark", "settings", "own images", "estimated", "held out", "arrays", "the paper's"],
)
def test_the_call(tmp_path: Path, source: Source, settings: dict[str, Any], expected: str | None) -> None:
    assert called(tmp_path, source, **settings) == expected


def test_a_call_is_words_for_a_shell(tmp_path: Path) -> None:
    call = called(tmp_path, Source(labelled="my cats; rm", unlabelled="b", num_novel=1))
    words = shlex.split(call or "")
    assert words[words.index("--labelled") + 1] == "my cats; rm"


def test_the_settings_of_an_estimate_are_those_of_its_record(tmp_path: Path) -> None:
    record = tmp_path / "my run" / "estimate" / "estimate.json"
    record.parent.mkdir(parents=True)
    asked = {"estimate.algorithm": "dtc", "estimate.max_novel": 5, "estimate.restarts": 10, "lr": 0.1}
    record.write_text(json.dumps({"settings": asked, "low": 2, "high": 4}))
    call = called(tmp_path, Source(labelled="a", unlabelled="b", num_novel=3, estimated="dtc"))
    assert call is not None
    assert "iic estimate.algorithm=dtc estimate.max_novel=5 --labelled" in call
