"""Correcting and exporting the classes of a run."""

import csv
import errno
import os
import re
from pathlib import Path

import pytest

from tests.cli.calls import contents, refused, works
from tests.cli.conftest import Finished, OwnImages


def listed(out: str) -> dict[str, int]:
    """Class → images, of the table that every call ends with."""
    lines = re.findall(r"^ *\d+ +(\S.*?) {2,}(\d+)", out, re.MULTILINE)
    return {name: int(number) for name, number in lines}


def rows(path: str | Path) -> list[dict[str, str]]:
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_from_discovered_to_named_and_exported(mine: Path) -> None:
    before = contents(mine)
    out = works("classes", mine)
    sizes = listed(out)
    assert sum(sizes.values()) == 20
    assert "Known classes: ants, bees [wild], crabs" in out
    assert "updates the page" not in out
    largest = max(sizes, key=lambda name: sizes[name])
    renamed = works("classes", mine, "rename", f"{largest}=zebra")
    assert "zebra" in listed(renamed)
    assert f"`newfound report {mine}` updates the page." in renamed
    parts = listed(works("classes", mine, "split", "zebra"))
    assert parts["zebra"] + parts["zebra-2"] == sizes[largest]
    works("export", mine, "all.csv")
    assert {row["class"] for row in rows("all.csv")} == {name for name, size in parts.items() if size}
    moved = [row["image"] for row in rows("all.csv") if row["class"] == "zebra"][:2]
    after = listed(works("classes", mine, "move", "zebra-2", *moved))
    assert after["zebra-2"] == parts["zebra-2"] + 2
    merged = listed(works("classes", mine, "merge", "ants", "zebra", "zebra-2"))
    assert merged["ants (known)"] == sizes[largest]
    works("export", mine, "sorted", "--link", "symlink")
    assert len(list(Path("sorted/ants").iterdir())) == sizes[largest]
    assert {
        path: data for path, data in contents(mine).items() if path.name not in ("edits.jsonl", ".lock")
    } == {path: data for path, data in before.items() if path.name != ".lock"}
    for undone in (
        "merge of zebra, zebra-2 into ants",
        "move of 2 images to zebra-2",
        "split of zebra into 2",
    ):
        assert works("classes", mine, "undo").startswith(f"undone: {undone}\n")
    assert works("classes", mine, "undo").startswith("undone: rename to zebra\n")
    assert listed(works("classes", mine)) == sizes
    refused(2, ("classes", mine, "undo"), "undo")


def test_three_parts(mine: Path) -> None:
    sizes = listed(works("classes", mine))
    largest = max(sizes, key=lambda name: sizes[name])
    assert len(listed(works("classes", mine, "split", largest, "--into", "3"))) == len(sizes) + 2


def test_the_page_and_predictions_follow(mine: Path, images: OwnImages) -> None:
    works("predict", mine, images.pile, "--out", "before.csv")
    works("classes", mine, "split", "novel-1")
    works("classes", mine, "merge", "crabs", "novel-1")
    works("classes", mine, "rename", "novel-1-2=striped <b>")
    works("report", mine)
    page = (mine / "report.html").read_text(encoding="utf-8")
    assert "striped &lt;b&gt;" in page
    works("predict", mine, images.pile)
    pairs = list(zip(rows("before.csv"), rows(mine / "predictions.csv"), strict=True))
    assert {after["class"] for _, after in pairs} <= {"ants", "bees [wild]", "crabs", "striped <b>"}
    for before, after in pairs:
        if before["class"] == "crabs":
            assert after["class"] == "crabs"
        if before["class"] == "novel-1":
            assert after["class"] in ("crabs", "striped <b>")


def test_predictions_know_the_parts(mine: Path, images: OwnImages) -> None:
    """The same images are assigned to the parts that the class was split into."""
    sizes = listed(works("classes", mine))
    largest = max(sizes, key=lambda name: sizes[name])
    works("classes", mine, "split", largest)
    works("export", mine, "pile.csv")
    works("predict", mine, images.pile, "--out", "new.csv")
    part = {row["image"]: row["class"] for row in rows("pile.csv")}
    new = {row["image"]: row["class"] for row in rows("new.csv") if row["class"].startswith(largest)}
    agree = [part[image] == name for image, name in new.items() if part[image].startswith(largest)]
    assert agree
    assert all(agree)


def test_a_run_that_is_resumed_keeps_its_edits(mine: Path, own_run: Finished) -> None:
    works("classes", mine, "rename", "novel-1=zebra")
    before = contents(mine)
    works(*own_run.call[:-1], mine, "--resume")
    after = contents(mine)
    for name in ("edits.jsonl", "assignments.csv"):
        assert after[mine / name] == before[mine / name]
    assert "zebra" in (mine / "report.html").read_text(encoding="utf-8")


def test_a_full_disk(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for call in (("classes", mine, "rename", "novel-1=zebra"), ("export", mine, "it.csv")):
        refused(1, call, "No space left on device", "Repeat the command once that is fixed.\n")


def test_what_is_refused(mine: Path, run: Finished, tmp_path: Path) -> None:
    refused(2, ("classes", tmp_path / "nothing"), "There is no run in")
    refused(2, ("classes", mine, "renam", "novel-1=a"), "Unknown action 'renam'. Did you mean 'rename'?")
    refused(2, ("classes", mine, "merge", "novel-1"), "Usage: newfound classes RUN merge INTO OTHERS...")
    refused(2, ("classes", mine, "undo", "all"), "Usage: newfound classes RUN undo")
    refused(2, ("classes", mine, "rename", "novel-1"), "Usage: newfound classes RUN rename OLD=NEW...")
    refused(2, ("classes", mine, "rename", "novel-1=a", "novel-1=b"), "OLD=NEW")
    refused(2, ("classes", mine, "rename", "novel-1=a", "novel-1"), "OLD=NEW")
    refused(2, ("classes", mine, "rename", "novel-9=a"), "Unknown class 'novel-9'")
    refused(2, ("classes", mine, "merge", "novel-1", "ants"), "'ants'")
    refused(2, ("classes", mine, "split", "novel-1", "--into", "1"), "1")
    refused(2, ("export", mine, mine), "already exists")
    refused(2, ("export", mine, "it.txt"), "it.txt", "use --format")
    refused(1, ("export", run.path, "digits", "--format", "folders"), "60 of 60 images are missing")
    assert not (mine / "edits.jsonl").exists()
    works("export", run.path, "digits.csv")
    assert len(rows("digits.csv")) == 60
    (mine / "results.json").unlink()
    refused(2, ("classes", mine), "not finished", "--resume")
