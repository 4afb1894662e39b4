"""The call that repeats a run, from its folder."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from newfound.core.registry import recipe_for
from newfound.experiment import Folder, Source
from newfound.experiment.call import call_of


def called(folder: Path, source: Source, method: str = "iic", **settings: Any) -> str:
    run = Folder(folder / "my run")
    run.open(source, recipe_for(method, source.name, settings), resume=False)
    return call_of(run).replace(str(folder), "HERE")


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
        (
            Source(arrays="f00"),
            {"epochs": 3},
            "newfound.discover('iic', data, 'HERE/my run', **{'epochs': 3})",
        ),
        (Source("digits", held_out=2), {}, "newfound calibrate made this run, with known classes held out"),
    ],
    ids=["benchmark", "settings", "own images", "estimated", "arrays", "held out"],
)
def test_the_call(tmp_path: Path, source: Source, settings: dict[str, Any], expected: str) -> None:
    assert called(tmp_path, source, **settings) == expected


def test_a_call_is_words_for_a_shell(tmp_path: Path) -> None:
    words = shlex.split(called(tmp_path, Source(labelled="my cats; rm", unlabelled="b", num_novel=1)))
    assert words[words.index("--labelled") + 1] == "my cats; rm"
