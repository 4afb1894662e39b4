"""Naming, merging, splitting and exporting from the command line."""

import csv
import errno
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.calls import TINY, contents, refused, works
from tests.cli.conftest import Finished, OwnImages


def listed(out: str) -> dict[str, int]:
    """Class → images, of the table that each verb ends with."""
    lines = re.findall(r"^ *\d+ +(\S.*?) {2,}(\d+)", out, re.MULTILINE)
    return {name: int(number) for name, number in lines}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_from_found_to_named_and_exported(mine: Path, images: OwnImages) -> None:
    before = contents(mine)
    sizes = listed(works("classes", mine))
    assert sum(sizes.values()) == 20
    largest = max(sizes, key=lambda name: sizes[name])
    assert "zebra" in listed(works("rename", mine, f"{largest}=zebra"))
    parts = listed(works("split", mine, "zebra"))
    assert parts["zebra"] + parts["zebra-2"] == sizes[largest]
    assert parts["zebra"] >= parts["zebra-2"] > 0
    works("export", mine, "all.csv")
    assert {row["class"] for row in rows(Path("all.csv"))} == {name for name, size in parts.items() if size}
    works("export", mine, "sorted/", "--link", "symlink")
    assert len(list(Path("sorted/zebra").iterdir())) == parts["zebra"]
    # What the run wrote is as it was.
    assert {path: data for path, data in contents(mine).items() if path.name != "edits.jsonl"} == before


def test_an_image_that_changed_is_not_split(images: OwnImages, mine: Path) -> None:
    place = Path("images")
    shutil.copytree(images.labelled.parent, place)
    works("relocate", mine, "--labelled", place / "known", "--unlabelled", place / "pile")
    sizes = listed(works("classes", mine))
    largest = max(sizes, key=lambda name: sizes[name])
    works("split", mine, largest)
    works("undo", mine)
    works("export", mine, "all.csv")
    first, other = [row["image"] for row in rows(Path("all.csv")) if row["class"] == largest][:2]
    shutil.copyfile(other, first)
    os.utime(first, (0, 0))  # as a copy that keeps its time
    copy = shutil.copytree(mine, "a copy of the run", copy_function=shutil.copyfile)
    for run in (mine, copy):
        refused(2, ("split", run, largest), "the images must be those that the run began with")


def test_an_old_page_is_told_until_it_is_drawn_anew(mine: Path) -> None:
    run = Path(shutil.move(mine, "my run é"))
    hint = "newfound report 'my run é' draws the page anew"
    assert "draws the page" not in works("classes", run)
    assert hint in works("rename", run, "novel-1=zebra")
    assert hint in works("classes", run)
    works("report", run)
    assert "draws the page" not in works("classes", run)
    assert hint in works("undo", run)
    (run / "report.html").unlink()
    assert hint in works("classes", run)


def test_the_page_and_predictions_follow(mine: Path, images: OwnImages) -> None:
    works("predict", mine, images.pile, "--out", "before.csv")
    works("merge", mine, "crabs", "novel-1")
    works("rename", mine, "novel-2=striped <b>")
    works("report", mine)
    page = (mine / "report.html").read_text(encoding="utf-8")
    assert "Shown after 2 edits by hand" in page
    assert re.findall(r"<h3>.*</span>(.*)\n", page) == ["striped &lt;b&gt;", "crabs"]
    assert "Known classes that images were put into" in page
    works("predict", mine, images.pile)
    pairs = list(zip(rows(Path("before.csv")), rows(mine / "predictions.csv"), strict=True))
    assert {after["class"] for _, after in pairs} <= {"ants", "bees [wild]", "crabs", "striped <b>"}
    for before, after in pairs:
        if before["class"] in ("crabs", "novel-1"):
            assert after["class"] == "crabs"
            assert float(after["confidence"]) > float(before["confidence"])
    assert any(before["class"] == "novel-1" for before, _ in pairs)


def test_predictions_know_the_parts(mine: Path, images: OwnImages) -> None:
    """What the pile was split into, the same images are sorted into as new ones."""
    sizes = listed(works("classes", mine))
    largest = max(sizes, key=lambda name: sizes[name])
    works("split", mine, largest)
    works("export", mine, "pile.csv")
    works("predict", mine, images.pile, "--out", "new.csv")
    part = {row["image"]: row["class"] for row in rows(Path("pile.csv"))}
    new = {row["image"]: row["class"] for row in rows(Path("new.csv")) if row["class"].startswith(largest)}
    agree = [part[image] == name for image, name in new.items() if part[image].startswith(largest)]
    assert agree
    assert all(agree)


def test_a_run_that_is_resumed_keeps_its_edits(mine: Path, images: OwnImages) -> None:
    works("rename", mine, "novel-1=zebra")
    before = contents(mine)
    works("discover", "iic", *images.options, *TINY, "encoder=small", "--out", mine, "--resume")
    after = contents(mine)
    for name in ("edits.jsonl", "assignments.csv"):
        assert after[mine / name] == before[mine / name]
    assert "zebra" in (mine / "report.html").read_text(encoding="utf-8")


def test_assignments_that_somebody_has_changed(mine: Path) -> None:
    lines = (mine / "assignments.csv").read_text().splitlines(keepends=True)
    (mine / "assignments.csv").write_text("".join([lines[0], *lines[:0:-1]]))
    refused(1, ("report", mine), "must list the images as the run wrote them", "another order")
    (mine / "assignments.csv").write_text("".join(lines[:-3]))
    for call in (("classes", mine), ("report", mine), ("export", mine, "it.csv")):
        refused(1, call, "must be as the run wrote it")


def test_assignments_that_are_gone_come_back(mine: Path, images: OwnImages) -> None:
    """By what the error advises, and with the edits."""
    works("rename", mine, "novel-1=zebra")
    before = works("classes", mine)
    (mine / "assignments.csv").unlink()
    refused(1, ("classes", mine), "remove results.json, and repeat the call")
    (mine / "results.json").unlink()
    works("discover", "iic", *images.options, *TINY, "encoder=small", "--out", mine, "--resume")
    assert works("classes", mine).startswith(before.partition("newfound report")[0])


def test_a_full_disk_is_told_without_options_that_are_not_there(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for call in (("rename", mine, "novel-1=zebra"), ("export", mine, "it.csv")):
        refused(1, call, "No space left on device", "then repeat the call\n")


def test_undo(mine: Path) -> None:
    before = works("classes", mine)
    works("rename", mine, "novel-1=zebra")
    works("merge", mine, "zebra", "novel-2")
    assert works("undo", mine).startswith("undone: the merge of novel-2 into zebra\n")
    assert works("undo", mine).startswith(f"undone: the name zebra\n{before}")
    refused(2, ("undo", mine), "there must be an edit to undo")


def test_what_is_refused(mine: Path, run: Finished, tmp_path: Path) -> None:
    refused(2, ("classes", tmp_path / "nothing"), "a run must be in")
    refused(2, ("rename", mine, "novel-1"), "a rename must be OLD=NEW")
    refused(2, ("rename", mine, "novel-1=a", "novel-1=b"), "a class takes one name")
    refused(2, ("rename", mine, "novel-9=a"), "unknown class 'novel-9'", "newfound classes")
    refused(2, ("merge", mine, "novel-1", "ants"), "known class 'ants'")
    refused(2, ("split", mine, "novel-1", "--into", "1"), "2 parts or more")
    refused(2, ("export", mine, mine), "is there already")
    refused(1, ("export", run.path, "digits", "--format", "folders"), "needs the pile as files", "csv")
    assert not (mine / "edits.jsonl").exists()


def test_a_run_on_a_benchmark_can_be_exported_too(run: Finished) -> None:
    works("export", run.path, "digits.csv")
    assert len(rows(Path("digits.csv"))) == 60


def test_a_run_that_has_not_ended(mine: Path) -> None:
    (mine / "results.json").unlink()
    refused(2, ("classes", mine), "must hold a finished run")
