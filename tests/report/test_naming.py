"""The commands that a page puts together from typed names: the JavaScript is run, and then what it says."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import newfound.report
from newfound.experiment import Folder, Source
from newfound.experiment.assignments import Assignments
from newfound.review.review import Review

SCRIPT = Path(newfound.report.__file__).with_name("naming.js")
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node, which runs JavaScript, is not installed")


def commands(typed: dict[str, str], run: str = "runs/my run") -> list[list[str]]:
    """The words of each line."""
    call = f"commands({json.dumps(run)}, ['ant', \"bee's\"], {json.dumps(list(typed.items()))})"
    script = f"{SCRIPT.read_text(encoding='utf-8')}\nconsole.log({call})"
    done = subprocess.run([str(NODE), "-e", script], capture_output=True, text=True, check=True)
    return [shlex.split(line) for line in done.stdout.splitlines() if line]


def after(typed: dict[str, str], folder: Path) -> dict[str, list[int]]:
    """Class → images, once the commands have been followed."""
    clusters = np.array([0, 1, 2, 3])
    no = np.zeros(4, dtype=bool)
    given = Assignments(list("abcd"), clusters, np.ones(4), no, no, ["ant"] * 4)
    folder.mkdir(exist_ok=True)
    review = Review(Folder(folder), ["ant", "bee's"], ["n1", "n2", "n3", "n4"], given, Source())
    for program, verb, run, *words in commands(typed):
        assert (program, run) == ("newfound", "runs/my run")
        if verb == "rename":
            review.rename(dict(word.split("=") for word in words))
        else:
            review.merge(*words)
    return {each.name: each.rows.tolist() for each in review.classes}


def test_nothing_typed() -> None:
    assert commands({"n1": "", "n2": "  ", "n3": "n3", "n4": ""}) == []


def test_names(tmp_path: Path) -> None:
    typed = {"n1": "sea otter", "n2": "it's", "n3": "", "n4": "ä/b"}
    assert after(typed, tmp_path) == {"sea otter": [0], "it's": [1], "n3": [2], "ä/b": [3]}
    assert len(commands(typed)) == 1


def test_one_name_is_one_class(tmp_path: Path) -> None:
    typed = {"n1": "zebra", "n2": "", "n3": "zebra", "n4": "zebra"}
    assert after(typed, tmp_path) == {"zebra": [0, 2, 3], "n2": [1]}


def test_the_name_of_a_known_class(tmp_path: Path) -> None:
    typed = {"n1": "bee's", "n2": "ant", "n3": "ant", "n4": ""}
    assert after(typed, tmp_path) == {"ant": [1, 2], "bee's": [0], "n4": [3]}


def test_names_that_look_like_options() -> None:
    assert commands({"n1": "", "-n2": "n1"}) == [["newfound", "merge", "runs/my run", "--", "n1", "-n2"]]


def test_composed_characters(tmp_path: Path) -> None:
    assert after({"n1": "cafe\u0301", "n2": "café", "n3": "", "n4": ""}, tmp_path)["café"] == [0, 1]


def test_the_name_of_another_that_keeps_it_or_gives_it_up(tmp_path: Path) -> None:
    assert after({"n1": "n2", "n2": "", "n3": "", "n4": ""}, tmp_path / "kept") == {
        **{"n2": [0, 1], "n3": [2], "n4": [3]}
    }
    assert after({"n1": "n2", "n2": "n3", "n3": "zebra", "n4": "zebra"}, tmp_path / "given up") == {
        **{"n2": [0], "n3": [1], "zebra": [2, 3]}
    }
