"""`newfound compare` runs what is missing and shows one table."""

import json
from pathlib import Path

import pytest

from tests.cli.calls import refused, works

CALL = ("compare", "uno-v1", "uno-v2", "--data", "digits", "--subset", "8")


def test_methods_side_by_side_reusing_what_is_there(tmp_path: Path) -> None:
    out = works(*CALL)
    place = tmp_path / "runs" / "compare" / "digits" / "published"
    assert "published track" in out
    assert "reusing" in out
    for suffix in ("csv", "md", "tex"):
        assert "uno-v2" in (place / f"comparison.{suffix}").read_text()
    first = json.loads((place / "uno-v2-seed0" / "results.json").read_text())
    assert first["timing"]["discover"]["images"] > 0
    assert "images/s  ce" not in works(*CALL)
    refused(2, (*CALL[:-1], "9"), "--resume", "subset")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("iic", "icc", "--data", "digits"), ("unknown method 'icc'", "'iic'")),
        (("iic", "--data", "digits", "--track", "fair"), ("track", "'published' or 'matched'", "'fair'")),
        (("iic", "--data", "digits", "--seeds", "0"), ("--seeds",)),
        (("iic",), ("--data",)),
    ],
)
def test_bad_calls_write_nothing(call: tuple[str, ...], words: tuple[str, ...], tmp_path: Path) -> None:
    refused(2, ("compare", *call), *words)
    assert not list(tmp_path.iterdir())
