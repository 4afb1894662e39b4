"""What is said of known classes that were hidden."""

from pathlib import Path
from typing import Any

import pytest

from newfound.engine.files import write_json
from newfound.experiment import Folder
from newfound.experiment.trust import Trust

RESULTS: dict[str, Any] = {"method": "iic", "timing": {}, "warnings": []}


def said(folder: Folder, **found: object) -> str:
    """Of a run with four known classes, two of which the trial hides."""
    known, hidden = {"known": list("abcd"), "novel": ["new"]}, {"known": list("ab"), "novel": ["1", "2"]}
    trial = {"held_out": 2, "task_aware": {"train": found}, "classes": hidden, "cluster_sizes": [10, 54]}
    write_json(folder.results, RESULTS | {"classes": known, "cluster_sizes": [7]})
    write_json(folder.trust.results, RESULTS | trial)
    return str(Trust.of(folder))


def test_the_head_that_is_used_the_mean_of_the_heads_and_one_class_for_all(tmp_path: Path) -> None:
    found = said(Folder(tmp_path), acc={"best_head": 0.9375, "mean": 0.734}, class_sizes=[24, 40])
    assert found == (
        "2 known classes were hidden and looked for in the same way (c, d): 93.8 % of their 64 images came "
        "into the right class (task-aware ACC, Hungarian matching), by the head that is used, the one of the "
        "lowest loss; the mean of the heads is 73.4 %; all in one class would be 62.5 %"
    )


@pytest.mark.parametrize("sizes", [{}, {"class_sizes": [32, 32]}])
def test_heads_that_agree_and_sizes_that_nobody_noted(sizes: dict[str, list[int]], tmp_path: Path) -> None:
    found = said(Folder(tmp_path), acc={"best_head": 0.75, "mean": 0.7501}, **sizes)
    assert "75.0 %" in found
    assert "head" not in found
    assert ("all in one class would be 50.0 %" in found) == bool(sizes)
