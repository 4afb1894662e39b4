"""Exports: every format, and that nothing is lost, doubled or overwritten."""

import csv
import errno
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from newfound.core.errors import DataError, RunError, UsageError
from newfound.engine.files import write_json
from newfound.experiment import Folder, Source
from newfound.experiment.assignments import Assignments
from newfound.review import files as module
from newfound.review.export import write_export
from newfound.review.files import How, distinct, safe
from newfound.review.review import Review

NAMES = ["mon/a.png", "tue/a.png", "tue/A.PNG", "tue/b.png"]


@pytest.fixture
def mine(tmp_path: Path) -> Review:
    """Two of the images are one class after a merge, one of which had a name like another's."""
    paths = [tmp_path / "pile" / name for name in NAMES]
    for width, path in enumerate(paths, start=5):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (width, 4), (width, 0, 0)).save(path)
    flags = np.array([False, True, False, False])
    given = Assignments(
        list(map(str, paths)), np.array([0, 1, 1, 2]), np.full(4, 0.87654), flags, ~flags, ["ant"] * 4
    )
    asked = {"method": "iic", "data": {"unlabelled": str(tmp_path / "pile")}, "settings": {}}
    write_json(tmp_path / "run" / "config.json", asked)
    review = Review(Folder(tmp_path / "run"), ["ant"], ["novel-1", "novel-2", "novel-3"], given, Source())
    review.rename({"novel-3": "a/b: c"})
    review.merge("novel-1", "novel-2")
    return review


def test_csv(mine: Review, tmp_path: Path) -> None:
    write_export(mine, tmp_path / "it.csv")
    with (tmp_path / "it.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[1] == {
        "image": str(tmp_path / "pile" / "tue" / "a.png"),
        "class_id": "1",
        "class": "novel-1",
        "confidence": "0.8765",
        "is_outlier": "yes",
        "looks_known": "no",
        "nearest_known": "ant",
    }
    assert [row["class"] for row in rows] == ["novel-1", "novel-1", "novel-1", "a/b: c"]


def test_json(mine: Review, tmp_path: Path) -> None:
    write_export(mine, tmp_path / "it.json", "json")
    rows = json.loads((tmp_path / "it.json").read_text(encoding="utf-8"))
    assert [row["class_id"] for row in rows] == [1, 1, 1, 3]
    assert rows[0]["is_outlier"] is False
    assert rows[0]["confidence"] == 0.8765


def test_parquet(mine: Review, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    write_export(mine, tmp_path / "it.parquet", "parquet")
    assert parquet.read_table(tmp_path / "it.parquet").to_pydict()["class_id"] == [1, 1, 1, 3]


def test_parquet_without_its_package(mine: Review, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install newfound\[parquet\]"):
        write_export(mine, tmp_path / "it.parquet", "parquet")


def test_coco(mine: Review, tmp_path: Path) -> None:
    write_export(mine, tmp_path / "it.json", "coco")
    whole = json.loads((tmp_path / "it.json").read_text(encoding="utf-8"))
    assert [image["width"] for image in whole["images"]] == [5, 6, 7, 8]
    assert whole["annotations"][3] == {
        **{"id": 4, "image_id": 4, "category_id": 4, "bbox": [0, 0, 8, 4], "area": 32, "iscrowd": 0},
        "score": 0.8765,
    }
    assert whole["categories"] == [
        {"id": 1, "name": "ant", "supercategory": "known"},
        {"id": 2, "name": "novel-1", "supercategory": "novel"},
        {"id": 4, "name": "a/b: c", "supercategory": "novel"},
    ]


@pytest.mark.parametrize("how", ["copy", "hardlink", "symlink"])
def test_folders(mine: Review, tmp_path: Path, how: How) -> None:
    out = tmp_path / "deep" / "sorted"
    write_export(mine, out, "folders", how)
    found = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert found == ["a_b_ c/b.png", "novel-1/A-3.PNG", "novel-1/a-2.png", "novel-1/a.png"]
    pairs = {"novel-1/a.png": 0, "novel-1/a-2.png": 1, "novel-1/A-3.PNG": 2, "a_b_ c/b.png": 3}
    for place, row in pairs.items():
        original = tmp_path / "pile" / NAMES[row]
        assert (out / place).read_bytes() == original.read_bytes()
        assert (out / place).is_symlink() == (how == "symlink")
        assert (out / place).samefile(original) == (how != "copy")
    assert not list((tmp_path / "deep").glob(".*"))


def test_nothing_is_overwritten(mine: Review, tmp_path: Path) -> None:
    (tmp_path / "it.csv").write_text("mine")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    for out in (tmp_path / "it.csv", tmp_path / "run", tmp_path / "nowhere"):
        with pytest.raises(UsageError, match="is there already; choose another"):
            write_export(mine, out)
    assert (tmp_path / "it.csv").read_text() == "mine"


@pytest.mark.parametrize(
    ("out", "form", "link", "said"),
    [
        ("it.pdf", None, None, "must end in .csv, .json or .parquet"),
        ("it.json", "csv", None, "a csv export must go to a .csv file"),
        ("it", "coco", None, "a coco export must go to a .json file"),
        ("it.csv", None, "symlink", "--link must come with folders"),
        ("it", "xlsx", None, "unknown format 'xlsx'"),
        ("it", "folders", "move", "unknown link 'move'"),
        ("pile/sorted", None, None, "must lie outside of the images"),
    ],
)
def test_what_is_refused(mine: Review, tmp_path: Path, out: str, form: Any, link: Any, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        write_export(mine, tmp_path / out, form, link)


def test_nothing_is_said_of_known_classes_that_cannot_be_compared(mine: Review, tmp_path: Path) -> None:
    mine.assignments = replace(mine.assignments, nearest_known=[""] * 4, looks_known=np.zeros(4, dtype=bool))
    write_export(mine, tmp_path / "it.json")
    write_export(mine, tmp_path / "it.csv")
    rows = json.loads((tmp_path / "it.json").read_text(encoding="utf-8"))
    assert [row["looks_known"] for row in rows] == [None] * 4
    assert (tmp_path / "it.csv").read_text(encoding="utf-8").count(",,\n") == 4


def test_what_is_now_of_a_known_class_no_longer_only_looks_like_it(mine: Review, tmp_path: Path) -> None:
    mine.merge("ant", "novel-1")
    write_export(mine, tmp_path / "it.json")
    rows = json.loads((tmp_path / "it.json").read_text(encoding="utf-8"))
    assert [row["looks_known"] for row in rows] == [False, False, False, True]


def test_images_that_are_gone(mine: Review, tmp_path: Path) -> None:
    (tmp_path / "pile" / "mon" / "a.png").unlink()
    for out in ("out", "out.json"):
        with pytest.raises(DataError, match="1 of 4 images are no files there"):
            write_export(mine, tmp_path / out, "coco" if "." in out else "folders")
        assert not (tmp_path / out).exists()
    (tmp_path / "pile" / "mon" / "a.png").write_text("no image")
    with pytest.raises(DataError, match=r"a\.png is none any more"):
        write_export(mine, tmp_path / "out.json", "coco")
    write_export(mine, tmp_path / "it.csv")


def test_a_failure_half_way_leaves_nothing(
    mine: Review, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: Path, place: Path) -> None:
        if file.name == "b.png":
            raise OSError(28, "No space left on device")
        place.write_bytes(b"")

    monkeypatch.setitem(module.PLACE, "copy", fail)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RunError, match="No space left on device"):
        write_export(mine, tmp_path / "out", "folders")
    assert sorted(tmp_path.rglob("*")) == before


def test_hard_links_onto_another_disk(mine: Review, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(file: Path, place: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", elsewhere)
    with pytest.raises(UsageError, match="cross-device link; choose copy or symlink instead"):
        write_export(mine, tmp_path / "out", "folders", "hardlink")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        *(
            ("zebra", "zebra"),
            ("a/b\\c", "a_b_c"),
            ("..", "_"),
            ("../evil", "_evil"),
            ("dots. .", "dots"),
            ("ü", "ü"),
        ),
        *(
            ("CON", "CON_"),
            ("com1", "com1_"),
            ("constant", "constant"),
            ("x" * 300, "x" * 240),
            ("漢" * 100, "漢" * 80),
        ),
    ],
)
def test_names_that_the_usual_file_systems_take(name: str, wanted: str) -> None:
    assert safe(name) == wanted


def test_a_name_near_the_limit_gives_way_to_its_number() -> None:
    long = "x" * 250 + ".png"
    assert distinct([long, long]) == [long, "x" * 236 + "-2.png"]
    assert distinct(["V1.5", "v1.5"]) == ["V1.5", "v1.5-2"]


def test_folders_that_cannot_have_the_names_of_their_classes(mine: Review, tmp_path: Path) -> None:
    assert write_export(mine, tmp_path / "sorted") == {"a/b: c": "a_b_ c"}


def test_no_name_twice() -> None:
    assert distinct(["a.png", "a.png", "a-2.png", "A.png", "a.png"]) == [
        *("a.png", "a-2.png", "a-2-2.png", "A-3.png", "a-4.png"),
    ]
