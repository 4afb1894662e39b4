"""Exports: every format, and that nothing is lost, doubled or overwritten."""

import csv
import errno
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from PIL import Image

from newfound.core.errors import DataError, NewfoundError, UsageError
from newfound.core.source import Source
from newfound.review import export as module
from newfound.review.export import distinct, exporter, safe, write_export
from newfound.review.review import Predictions, Review
from tests.review.runs import logits_of, write_run

NAMES = ["mon/a.png", "tue/a.png", "tue/A.PNG", "tue/b.png"]


@pytest.fixture
def mine(tmp_path: Path) -> Review:
    """After a merge, three of the images are one class, and their names differ in case or folder only."""
    paths = [tmp_path / "pile" / name for name in NAMES]
    for width, path in enumerate(paths, start=5):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (width, 4), (width, 0, 0)).save(path)
    logits = logits_of([0, 1, 1, 2], num_known=1, confidence=0.87654)
    logits[:, 0] = [1, 0, 1, 1]
    logits[1, 0] = -9
    source = Source(unlabelled=str(tmp_path / "pile"))
    review = Review(write_run(tmp_path / "run", logits, ["ant"], list(map(str, paths)), source=source))
    review.rename({"novel-3": "a/b: c"})
    review.merge("novel-1", "novel-2")
    return review


@pytest.mark.parametrize("name", ["=1+1", "+a", "-a", "@SUM(A1)"])
def test_class_names_are_no_formulas_and_paths_stay(name: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", logits_of([0, 1], num_known=1), [name], ["=a.png", "b.png"])
    review = Review(run)
    review.merge(name, "novel-1")
    write_export(review, tmp_path / "it.csv")
    new = Predictions(
        images=["=a.png"], classes=[name], kinds=["known"], confidence=[1.0], nearest=[name], left_out=[]
    )
    new.write(tmp_path / "new.csv")
    for path in (tmp_path / "it.csv", tmp_path / "new.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            first = next(csv.DictReader(file))
        assert (first["image"], first["class"]) == ("=a.png", f"'{name}")
    assert Review(run).names[0] == name


def test_only_images_of_the_run_are_copied(tmp_path: Path) -> None:
    """Those in its folders, or wherever its lists say."""
    for place in ("pile/a.png", "pile/b.png", "elsewhere/c.png", "secret.png"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4)).save(tmp_path / place)
    (tmp_path / "list.txt").write_text("pile/a.png\nelsewhere/c.png\n")

    def export(given: str, *images: str) -> None:
        source, paths = Source(unlabelled=str(tmp_path / given)), [str(tmp_path / each) for each in images]
        place = f"{given} {images[1]}".replace("/", "-")
        run = write_run(tmp_path / place, logits_of([0, 1]), images=paths, source=source)
        write_export(Review(run), tmp_path / "out" / place, "folders")

    export("pile", "pile/a.png", "pile/b.png")
    export("list.txt", "pile/a.png", "elsewhere/c.png")
    for given, image in (("pile", "secret.png"), ("pile", "pile/../secret.png"), ("list.txt", "pile/b.png")):
        with pytest.raises(DataError, match=r"1 of 2 images .*not part of the run"):
            export(given, "pile/a.png", image)
    paths = [str(tmp_path / place) for place in ("pile/a.png", "pile/b.png")]
    run = write_run(tmp_path / "digits", logits_of([0, 1]), images=paths, source=Source(benchmark="digits"))
    with pytest.raises(DataError, match=r"2 of 2 images .*not part of the run"):
        write_export(Review(run), tmp_path / "stolen", "folders")


def exported(review: Review, out: Path) -> list[Mapping[str, object]]:
    write_export(review, out)
    rows: list[Mapping[str, object]] = json.loads(out.read_text(encoding="utf-8"))
    return rows


def test_csv(mine: Review, tmp_path: Path) -> None:
    write_export(mine, tmp_path / "it.csv")
    with (tmp_path / "it.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[1] == {
        "image": str(tmp_path / "pile" / "tue" / "a.png"),
        "class_id": "1",
        "class": "novel-1",
        "kind": "novel",
        "confidence": "0.8765",
        "accepted": "no",
    }
    assert [row["class"] for row in rows] == ["novel-1", "novel-1", "novel-1", "a/b: c"]


def test_json(mine: Review, tmp_path: Path) -> None:
    rows = exported(mine, tmp_path / "it.json")
    assert [row["class_id"] for row in rows] == [1, 1, 1, 3]
    assert rows[0]["confidence"] == 0.8765
    mine.merge("ant", "novel-1")
    mine.accept()
    again = exported(mine, tmp_path / "again.json")
    assert [row["kind"] for row in again] == ["known"] * 3 + ["novel"]
    assert [row["accepted"] for row in again] == [True, True, True, False]


def test_parquet(mine: Review, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(UsageError, match="pyarrow"):
            write_export(mine, tmp_path / "it.parquet")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    write_export(mine, tmp_path / "it.parquet")
    assert parquet.read_table(tmp_path / "it.parquet").to_pydict()["class_id"] == [1, 1, 1, 3]


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
def test_folders(mine: Review, tmp_path: Path, how: str) -> None:
    out = tmp_path / "deep" / "sorted"
    assert write_export(mine, out, "folders", how) == {"a/b: c": "a_b_ c"}
    places = ["novel-1/a.png", "novel-1/a-2.png", "novel-1/A-3.PNG", "a_b_ c/b.png"]
    assert {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()} == set(places)
    for place, name in zip(places, NAMES, strict=True):
        original = tmp_path / "pile" / name
        assert (out / place).read_bytes() == original.read_bytes()
        assert (out / place).is_symlink() == (how == "symlink")
        assert (out / place).samefile(original) == (how != "copy")
    assert not list((tmp_path / "deep").glob(".*"))


def test_label_studio(mine: Review, tmp_path: Path) -> None:
    """Its documented JSON: `data` and `predictions`, whose names are those of the labelling interface."""
    mine.move_rows("unsorted", [0])
    write_export(mine, tmp_path / "out", "label-studio")
    tasks = json.loads((tmp_path / "out" / "tasks.json").read_text(encoding="utf-8"))
    interface = ElementTree.parse(tmp_path / "out" / "config.xml")
    assert [choice.get("value") for choice in interface.iter("Choice")] == ["ant", "novel-1", "a/b: c"]
    (choices,), (image,) = interface.iter("Choices"), interface.iter("Image")
    for task, original in zip(tasks, NAMES, strict=True):
        path = tmp_path / "out" / unquote(task["data"]["image"].removeprefix("/data/local-files/?d="))
        assert path.read_bytes() == (tmp_path / "pile" / original).read_bytes()
    assert image.get("value") == "$image"
    assert tasks[0]["predictions"] == []
    assert tasks[3]["data"] == {
        **{"image": "/data/local-files/?d=images/b.png", "file": str(tmp_path / "pile" / "tue/b.png")},
        **{"kind": "novel", "accepted": False},
    }
    (prediction,) = tasks[3]["predictions"]
    assert (prediction["score"], prediction["model_version"]) == (0.8765, "newfound iic")
    assert prediction["result"] == [
        {
            **{"id": "class", "from_name": choices.get("name"), "to_name": choices.get("toName")},
            **{"type": "choices", "value": {"choices": ["a/b: c"]}},
        }
    ]


def test_label_studio_reads_every_class_name(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    names, source = ["a\x1b[31m", "<b>&'\"\n"], Source(unlabelled=str(tmp_path / "a.png"))
    run = write_run(tmp_path / "run", logits_of([0], 2), names, [str(tmp_path / "a.png")], source=source)
    review = Review(run)
    review.merge(names[0], "novel-1")
    write_export(review, tmp_path / "out", "label-studio")
    interface = ElementTree.parse(tmp_path / "out" / "config.xml")
    assert [choice.get("value") for choice in interface.iter("Choice")] == ["a\ufffd[31m", names[1]]
    (task,) = json.loads((tmp_path / "out" / "tasks.json").read_text(encoding="utf-8"))
    assert task["predictions"][0]["result"][0]["value"] == {"choices": ["a\ufffd[31m"]}


def test_fiftyone(mine: Review, tmp_path: Path) -> None:
    """Each label is that of the file in `data` whose name it has, without the ending."""
    mine.move_rows("unsorted", [0])
    write_export(mine, tmp_path / "out", "fiftyone", "symlink")
    found = json.loads((tmp_path / "out" / "labels.json").read_text(encoding="utf-8"))
    assert found["classes"] == ["ant", "novel-1", "a/b: c"]
    attributes = {"kind": "novel", "accepted": False}
    assert found["labels"] == {
        "a": None,
        "a-2": {"label": 1, "confidence": 0.8765, "attributes": attributes},
        "A-3": {"label": 1, "confidence": 0.8765, "attributes": attributes},
        "b": {"label": 2, "confidence": 0.8765, "attributes": attributes},
    }
    files = {path.stem: path.resolve() for path in (tmp_path / "out" / "data").iterdir()}
    assert files == {
        stem: tmp_path / "pile" / name for stem, name in zip(found["labels"], NAMES, strict=True)
    }


def test_imagefolder(mine: Review, tmp_path: Path) -> None:
    """A table with `file_name`, relative to it, beside the images."""
    write_export(mine, tmp_path / "out", "imagefolder")
    with (tmp_path / "out" / "metadata.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == ["novel-1", "novel-1", "novel-1", "a/b: c"]
    assert rows[0]["file_name"] == "images/a.png"
    for row, original in zip(rows, NAMES, strict=True):
        assert (tmp_path / "out" / row["file_name"]).read_bytes() == (
            tmp_path / "pile" / original
        ).read_bytes()


@pytest.mark.extra
def test_datasets_reads_the_imagefolder(mine: Review, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    write_export(mine, tmp_path / "out", "imagefolder")
    cache = str(tmp_path / "cache")
    read = datasets.load_dataset("imagefolder", data_dir=str(tmp_path / "out"), cache_dir=cache)["train"]
    assert read["label"][:] == ["novel-1", "novel-1", "novel-1", "a/b: c"]


def test_nothing_is_overwritten(mine: Review, tmp_path: Path) -> None:
    (tmp_path / "it.csv").write_text("mine")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    for out in (tmp_path / "it.csv", tmp_path / "run", tmp_path / "nowhere"):
        with pytest.raises(UsageError, match="already exists"):
            write_export(mine, out)
    assert (tmp_path / "it.csv").read_text() == "mine"


@pytest.mark.parametrize(
    ("out", "form", "link", "said"),
    [
        ("it.pdf", None, None, "as 'pdf'"),
        ("it.json", "csv", None, "as 'csv'"),
        ("it.csv", None, "symlink", "only for folders"),
        ("it", "folders", "move", "link is one of"),
        ("pile/sorted", None, None, "inside the image folder"),
    ],
)
def test_refused(mine: Review, tmp_path: Path, out: str, form: str, link: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        write_export(mine, tmp_path / out, form, link)
    assert not (tmp_path / out).exists()


def test_a_format_is_one_function(mine: Review, tmp_path: Path) -> None:
    @exporter("names", ".names")
    def write_names(review: Review, path: Path) -> None:
        path.write_text(" ".join(review.names.values()))

    write_export(mine, tmp_path / "it.names")
    assert (tmp_path / "it.names").read_text() == "ant novel-1 a/b: c unsorted"


def test_images_that_are_gone(mine: Review, tmp_path: Path) -> None:
    (tmp_path / "pile" / "mon" / "a.png").unlink()
    for out in ("out", "out.json"):
        with pytest.raises(DataError, match="1 of 4 images"):
            write_export(mine, tmp_path / out, "coco" if "." in out else "folders")
        assert not (tmp_path / out).exists()
    (tmp_path / "pile" / "mon" / "a.png").write_text("no image")
    with pytest.raises(DataError, match=r"first .*a\.png"):
        write_export(mine, tmp_path / "out.json", "coco")
    write_export(mine, tmp_path / "it.csv")


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [("copy", errno.ENOSPC, "No space left on device"), ("hardlink", errno.EXDEV, "link")],
)
def test_a_failure_half_way_leaves_nothing(
    mine: Review, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, code: int, said: str
) -> None:
    def fail(file: Path, place: Path) -> None:
        if file.name == "b.png":
            raise OSError(code, os.strerror(code))
        place.write_bytes(b"")

    monkeypatch.setitem(module.PLACE, how, fail)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(NewfoundError, match=said):
        write_export(mine, tmp_path / "out", "folders", how)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        *(("zebra", "zebra"), ("a/b\\c", "a_b_c"), ("..", "_"), ("../evil", "_evil"), ("dots. .", "dots")),
        *(("ü", "ü"), ("CON", "CON_"), ("com1", "com1_"), ("constant", "constant")),
        *(("x" * 300, "x" * 240), ("漢" * 100, "漢" * 80)),
    ],
)
def test_names_that_the_usual_file_systems_take(name: str, wanted: str) -> None:
    assert safe(name) == wanted


def test_no_name_twice() -> None:
    assert distinct(["a.png", "a.png", "a-2.png", "A.png", "a.png"]) == [
        *("a.png", "a-2.png", "a-2-2.png", "A-3.png", "a-4.png"),
    ]
    long = "x" * 250 + ".png"
    assert distinct([long, long]) == [long, "x" * 236 + "-2.png"]
    assert distinct(["V1.5", "v1.5"]) == ["V1.5", "v1.5-2"]
