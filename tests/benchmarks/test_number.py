"""Cuts of the benchmark of estimates, and how its table is made."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.number import Cut, cut, summary

ANSWER = {"seed": 100, "data": "c100", "pile": "novel", "tail": 1, "known": 10, "each": 200, "seconds": 1.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors that are their own labels."""
    path = tmp_path_factory.mktemp("vectors")
    for name, classes in (("c10", 10), ("c100", 100)):
        labels = np.arange(classes).repeat(500)
        np.save(path / f"{name}-labels.npy", labels)
        np.save(path / f"{name}.npy", labels[:, None].astype(np.float16))
    return path


@pytest.mark.parametrize("seed", [0, 1, 4, 23])
def test_a_pile_holds_what_was_drawn(folder: Path, seed: int) -> None:
    features, drawn = cut(folder, seed)
    known, pile = (set(each.flatten().tolist()) for each in (features.labelled, features.pile))
    assert (len(known), len(pile - known)) == (drawn["known"], drawn["novel"])
    assert pile & known == (known if drawn["pile"] == "mixed" else set())
    sizes = features.pile.flatten().long().bincount()
    novel = sizes[[int(c) for c in pile - known]]
    assert novel.max() == drawn["each"]
    assert round(float(novel.max() / novel.min())) == drawn["tail"]


def test_errors_and_widths_are_relative_to_the_truth() -> None:
    answers = ((10, 12, 8, 14), (10, 9, 9, 9), (20, 20, 15, 25))
    cuts = [
        Cut.model_validate(ANSWER | {"novel": novel, "found": found, "low": low, "high": high})
        for novel, found, low, high in answers
    ]
    assert summary(cuts) == "3 | 10% | 67% | 50%"
