"""assignments.csv: what is in it, and that it reads back."""

from pathlib import Path

import numpy as np
import pytest
import torch

from newfound.core.errors import RunError
from newfound.data.images import ResidentImages
from newfound.experiment.assignments import Assignments
from newfound.experiment.pile import Pile

IMAGES = ["a, b.png", 'say "x".png', "ünïcode\r.png"]
NOVEL = ["novel-1", "novel-2"]


def pile(comparable: bool = True) -> Pile:
    """Three images: clearly the first novel class, clearly the second, and most of all a bee."""
    scores = np.array([[9, 0], [0, 9], [1, 1]], np.float32)
    known = np.array([[0, 0], [0, 0], [0, 4]], np.float32)
    pixels = ResidentImages(torch.zeros(3, 3, 4, 4, dtype=torch.uint8), IMAGES)
    names = ["ant", "bee", *NOVEL]
    return Pile(pixels, scores, np.concatenate([known, scores], axis=1), names, 2, comparable)


def test_a_line_for_each_image(tmp_path: Path) -> None:
    Assignments.of(pile()).write(tmp_path / "it.csv", NOVEL)
    assert (tmp_path / "it.csv").read_bytes().decode() == (
        "image,class,confidence,is_outlier,looks_known,nearest_known\n"
        '"a, b.png",novel-1,0.9999,no,no,ant\n'
        '"say ""x"".png",novel-2,0.9999,no,no,ant\n'
        '"ünïcode\r.png","novel-1","0.5000","no","yes","bee"\n'
    )


def test_nothing_is_said_of_known_classes_that_cannot_be_compared() -> None:
    found = Assignments.of(pile(comparable=False))
    assert not found.looks_known.any()
    assert found.nearest_known == ["", "", ""]


def test_an_image_that_fits_far_worse_is_an_outlier() -> None:
    scores = np.tile(np.array([[5, 0]], np.float32), (20, 1))
    scores += np.arange(20, dtype=np.float32)[:, None] / 100
    scores[7] = [1, 0]
    pixels = ResidentImages(torch.zeros(20, 3, 4, 4, dtype=torch.uint8), [str(row) for row in range(20)])
    found = Assignments.of(Pile(pixels, scores, scores, NOVEL, 1, False))
    assert np.flatnonzero(found.is_outlier).tolist() == [7]


def test_it_reads_back(tmp_path: Path) -> None:
    given, path = Assignments.of(pile()), tmp_path / "it.csv"
    given.write(path, NOVEL)
    found = Assignments.read(path, NOVEL)
    assert found.images == IMAGES
    assert found.clusters.tolist() == given.clusters.tolist() == [0, 1, 0]
    assert found.confidence == pytest.approx(given.confidence, abs=5e-5)
    for name in ("is_outlier", "looks_known", "nearest_known"):
        assert list(getattr(found, name)) == list(getattr(given, name))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "got: an empty file; remove it and results.json, and repeat"),
        (None, "got: No such file or directory; remove results.json, and repeat"),
    ],
)
def test_a_file_that_is_empty_or_gone(tmp_path: Path, text: str | None, told: str) -> None:
    path = tmp_path / "it.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RunError, match=told):
        Assignments.read(path, NOVEL)


@pytest.mark.parametrize(
    "text",
    [
        "image,class\na,novel-1\n",
        "image,class,confidence,is_outlier,looks_known,nearest_known\na,zebra,1,no,no,ant\n",
        "image,class,confidence,is_outlier,looks_known,nearest_known\na,novel-1,much,no,no,ant\n",
        "image,class,confidence,is_outlier,looks_known,nearest_known\na,novel-1,1,maybe,no,ant\n",
        "image,class,confidence,is_outlier,looks_known,nearest_known\na,novel-1\n",
    ],
)
def test_a_file_that_is_not_ours_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "it.csv"
    path.write_text(text)
    with pytest.raises(RunError, match="must be the CSV that newfound wrote"):
        Assignments.read(path, NOVEL)
