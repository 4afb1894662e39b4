"""The commands that the report writes, naming.js run by node."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import newfound.review
from newfound.review.review import Review
from tests.review.runs import logits_of, write_run

NAMING = Path(newfound.review.__file__).with_name("naming.js").read_text(encoding="utf-8")
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node, which runs JavaScript, is not installed")


def commands(typed: dict[str, str], run: str = "runs/my run") -> list[list[str]]:
    """The words of each command."""
    call = f"commands({json.dumps(run)}, ['ant', \"bee's\"], {json.dumps(list(typed.items()))})"
    script = f"{NAMING}\nconsole.log({call})"
    done = subprocess.run([str(NODE), "-e", script], capture_output=True, text=True, check=True)
    return [shlex.split(line) for line in done.stdout.splitlines() if line]


def named(folder: Path, *typed: str) -> dict[str, list[int]]:
    """Class → images, once the commands have been followed for names typed for novel-1 to novel-4."""
    review = Review(write_run(folder, logits_of([0, 1, 2, 3]), ["ant", "bee's"]))
    fields = dict(zip([f"novel-{number}" for number in range(1, 5)], typed, strict=True))
    for program, verb, run, edit, *words in commands(fields):
        assert (program, verb, run) == ("newfound", "classes", "runs/my run")
        if edit == "rename":
            review.rename(dict(word.split("=") for word in words))
        else:
            review.merge(*words)
    return {each.name: each.rows.tolist() for each in review.classes}


def test_no_names() -> None:
    assert commands({"n1": "", "n2": "  ", "n3": "n3", "n4": ""}) == []


def test_names_that_look_like_options() -> None:
    (words,) = commands({"n1": "", "-n2": "n1"})
    assert words == ["newfound", "classes", "runs/my run", "merge", "--", "n1", "-n2"]


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        (["sea otter", "it's", "", "ä/b"], {"sea otter": [0], "it's": [1], "novel-3": [2], "ä/b": [3]}),
        (["zebra", "", "zebra", "zebra"], {"zebra": [0, 2, 3], "novel-2": [1]}),
        (["bee's", "ant", "ant", ""], {"ant": [1, 2], "bee's": [0], "novel-4": [3]}),
        (["cafe\u0301", "café", "", ""], {"café": [0, 1], "novel-3": [2], "novel-4": [3]}),
        (["novel-2", "", "", ""], {"novel-2": [0, 1], "novel-3": [2], "novel-4": [3]}),
        (["novel-2", "novel-3", "zebra", "zebra"], {"novel-2": [0], "novel-3": [1], "zebra": [2, 3]}),
    ],
    ids=["new", "same", "known", "composed", "taken", "given up"],
)
def test_names(tmp_path: Path, typed: list[str], wanted: dict[str, list[int]]) -> None:
    assert named(tmp_path, *typed) == wanted
