"""A person's own images from beginning to end."""

import csv
import os
import shutil
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from newfound.core import dist
from newfound.core.errors import UsageError
from newfound.engine.checkpoint import Checkpoint
from newfound.run.folder import Folder
from newfound.run.trained import run_scores
from tests.cli.calls import TINY, changed, contents, refused, textures, works
from tests.cli.conftest import Finished, OwnImages


def rows_of(path: str | Path) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_what_was_loaded_found_and_left_out(images: OwnImages, own_run: Finished) -> None:
    lines = own_run.out.splitlines()
    assert lines[0] == "The pile is assumed to hold no image of a known class. If it may, use --pile mixed."
    assert "24 labelled images of 3 known classes, 20 unlabelled images of 2 novel classes" in lines[1]
    assert "16 x 16 pixels" in lines[1]
    assert any(line.startswith(f"left out: {images.broken}: ") for line in lines)
    assert lines[-1] == f"Open {own_run.path / 'report.html'} to look at the classes."
    rows = rows_of(own_run.path / "assignments.csv")
    assert [row["image"] for row in rows] == sorted(map(str, images.pile.glob("*/*.png")))
    assert {row["class"] for row in rows} <= {"novel-1", "novel-2"}


def test_nothing_is_scored_without_the_truth(own_run: Finished, images: OwnImages) -> None:
    results = Folder(own_run.path).read_results()
    assert results.task_aware is None
    assert sum(results.cluster_sizes) == 20
    before = (own_run.path / "report.html").read_text(encoding="utf-8")
    out = works("report", own_run.path, "--out", "deep/again.html", "--figures", "drawn")
    assert "task-aware" not in out
    assert "No confusion matrices: the true classes are not known." in out
    assert Path("deep/again.html").read_text(encoding="utf-8") == before
    assert sorted(path.name for path in Path("drawn").iterdir()) == ["curves.png", "tsne.pdf", "tsne.png"]
    found = run_scores(Folder(own_run.path))
    assert [found.class_names[index] for index in found.labels[24:]] == [
        row["class"] for row in rows_of(own_run.path / "assignments.csv")
    ]


def test_images_are_loaded_for_as_many_processes_as_will_be_started(
    images: OwnImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object) -> None:
        raise UsageError(f"read for {dist.on_this_machine()} processes")

    monkeypatch.setattr("newfound.cli.discover.load_data", load)
    refused(2, ("discover", "iic", *images.options, *TINY, "encoder=small", "devices=3"), "for 3 processes")


def test_what_does_not_fit_is_refused_before_many_files_are_read(
    images: OwnImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object) -> None:
        raise UsageError("read")

    monkeypatch.setattr("newfound.cli.discover.load_data", load)
    monkeypatch.setattr("newfound.run.preflight.free_disk", lambda place: 1000)
    call = ("discover", "iic", *images.options, *TINY, "encoder=small")
    refused(2, call, "error: read")
    monkeypatch.setattr("newfound.cli.discover.MANY", 45)
    refused(2, call, "Not enough disk space for runs", "are needed, and 1 KiB are free")


@pytest.mark.parametrize("part", ["labelled", "pile"])
def test_nothing_is_written_among_the_images(part: str, own_run: Finished, images: OwnImages) -> None:
    inside = getattr(images, part) / "new"
    run = ("discover", *images.options, *TINY, "encoder=small", "--out", inside)
    for call in (
        ("report", own_run.path, "--figures", inside),
        ("export", own_run.path, inside),
        ("predict", own_run.path, images.pile, "--out", inside / "new.csv"),
        run,
    ):
        refused(2, call, "lies inside the image folder", "Choose another")
    assert not inside.exists()


def test_images_that_have_changed_are_refused(images: OwnImages) -> None:
    shutil.copytree(images.labelled, "known")
    call = ("discover", "iic", "--labelled", "known", *images.options[2:], *TINY, "encoder=small")
    works(*call, "--out", "run")
    Path("known/crabs").rename("known/dogs")
    refused(1, (*call, "--out", "run", "--resume"), "class names", "changed")
    Path("known/dogs").rename("known/crabs")
    first, *_, last = sorted(path for path in Path("known").rglob("*") if path.is_file())
    last.write_bytes(first.read_bytes())
    refused(1, (*call, "--out", "run", "--resume"), "changed")
    refused(1, ("report", "run", "--figures", "drawn"), "changed")


def test_a_run_is_found_from_another_folder(own_run: Finished, images: OwnImages) -> None:
    shutil.copytree(images.labelled, "known")
    call = ("discover", "iic", "--labelled", "known", *images.options[2:], *TINY, "encoder=small")
    works(*call, "--out", "run")
    run = Path("run").absolute()
    Path("elsewhere").mkdir()
    os.chdir("elsewhere")
    works("report", run, "--out", "page.html")


def test_diverged_weights_predict_nothing(own_run: Finished, images: OwnImages) -> None:
    shutil.copytree(own_run.path, "run")
    saved = Checkpoint.load(Path("run/checkpoint.safetensors"))
    broken = {
        key: value * torch.nan if value.is_floating_point() else value for key, value in saved.weights.items()
    }
    Checkpoint(broken, saved.moments, saved.state).save(Path("run/checkpoint.safetensors"))
    refused(1, ("predict", "run", images.pile), "NaN")
    assert not Path("run/predictions.csv").exists()


def test_strange_class_names_are_drawn(images: OwnImages) -> None:
    shutil.copytree(images.labelled, "known")
    Path("known/ants").rename(r"known/$\frac$")
    Path("known/crabs").rename("known/图像类")
    call = ("discover", "iic", "--labelled", "known", *images.options[2:], *TINY, "encoder=small")
    works(*call, "--out", "run")
    assert "tsne.png" in works("report", "run", "--figures", "drawn")


def test_strict_fails_on_the_first_broken_file(images: OwnImages, own_run: Finished) -> None:
    call = ("discover", "iic", *images.options, *TINY, "encoder=small", "--strict", "--out", "out/run")
    refused(1, call, str(images.broken), "leave out --strict")
    assert not Path("out").exists()
    refused(1, ("predict", own_run.path, images.pile, "--strict", "--out", "new.csv"), str(images.broken))
    assert not Path("new.csv").exists()


def test_new_images_get_known_and_novel_classes(images: OwnImages, own_run: Finished) -> None:
    textures(Path("new/a"), (160, 0, 0), 3, 7)
    Path("new/b.png").write_bytes(b"no image")
    before = contents(own_run.path)
    out = works("predict", own_run.path, "new", "--out", "deep/new.csv")
    assert "left out: new/b.png: " in out
    assert "written: deep/new.csv" in out
    rows = rows_of("deep/new.csv")
    table = [line.rsplit(maxsplit=1) for line in out.splitlines() if line[-3:].strip().isdigit()]
    assert {name.strip(): int(size) for name, size in table} == Counter(row["class"] for row in rows)
    assert [row["image"] for row in rows] == [os.path.abspath(f"new/a/0{row}.png") for row in range(3)]
    assert {row["class"] for row in rows} <= {"ants", "bees [wild]", "crabs", "novel-1", "novel-2"}
    assert contents(own_run.path) == before
    refused(2, ("predict", own_run.path, "new", "--out", "deep/new.csv"), "already exists")


def test_of_many_files_left_out_the_first_are_listed(own_run: Finished) -> None:
    textures(Path("new"), (160, 0, 0), 1, 7)
    for row in range(300):
        Path(f"new/{row:03}.png").write_bytes(b"no image")
    out = works("predict", own_run.path, "new", "--out", "new.csv")
    *files, more = (line for line in out.splitlines() if line.startswith("left out: "))
    assert [line.split(": ")[1] for line in files] == [f"new/{row:03}.png" for row in range(20)]
    assert more == "left out: 280 more"


def test_dark_images_are_warned_of_before_training(images: OwnImages) -> None:
    shutil.copytree(images.pile / "monday", "pile")
    for row in range(3):
        Image.fromarray(np.full((16, 16), 4000 + row, np.uint16)).save(f"pile/{row}.tif")
    own = ("--labelled", images.labelled, "--unlabelled", "pile", "--num-novel", "2")
    lines = works("discover", *own, *TINY, "encoder=small", "--stop-after", "0s").splitlines()
    assert "13 unlabelled" in lines[2]
    assert lines[3].startswith("warning: 3 of 3 ")
    assert "dark" in lines[3]


def test_known_classes_are_recognised_and_new_ones_found(images: OwnImages) -> None:
    """Plain colours: a few epochs are enough to be right about all of them."""
    longer = ("epochs=6", "pretrain.epochs=10", "batch_size=20", "pretrain.batch_size=12")
    works("discover", "iic", *images.options, *changed(TINY, *longer), "encoder=small", "--out", "run")
    for number, name in enumerate(("ants", "bees [wild]", "crabs")):
        works("predict", "run", images.labelled / name, "--out", f"known{number}.csv")
        assert {row["class"] for row in rows_of(f"known{number}.csv")} == {name}
    works("predict", "run", images.pile)
    found = {
        folder: {row["class"] for row in rows_of("run/predictions.csv") if folder in row["image"]}
        for folder in ("monday", "tuesday")
    }
    assert sorted(found.values(), key=str) == [{"novel-1"}, {"novel-2"}]
    works("predict", "run", "run/predictions.csv", "--out", "again.csv")  # its paths can be read again
    assert rows_of("again.csv") == rows_of("run/predictions.csv")


def test_one_known_class_and_one_novel_image_are_enough(images: OwnImages) -> None:
    textures(Path("known/only"), (160, 0, 0), 4, 8)
    single = images.pile / "monday" / "00.png"
    own = ("--labelled", "known", "--unlabelled", str(single), "--num-novel", "1")
    out = works("discover", "iic", *own, *TINY, "encoder=small", "--out", "run")
    assert out.index("warning: ") < out.index("pretrain 1/1")
    assert [row["class"] for row in rows_of("run/assignments.csv")] == ["novel-1"]


def test_the_same_images_in_tar_files_give_the_same_run(own_run: Finished, images: OwnImages) -> None:
    for folder, tar in ((images.labelled, "known.tar"), (images.pile, "pile.tar")):
        with tarfile.open(tar, "w") as file:
            for path in sorted(folder.rglob("*.png")):
                file.add(path, path.relative_to(folder))
    given = ("--labelled", "known.tar", "--unlabelled", "pile.tar", *images.options[4:])
    works("discover", "iic", *given, *TINY, "encoder=small", "--out", "run")
    before, rows = rows_of(own_run.path / "assignments.csv"), rows_of("run/assignments.csv")
    assert [row["image"] for row in rows] == [
        str(Path("pile.tar").absolute() / Path(row["image"]).relative_to(images.pile)) for row in before
    ]
    assert [row["confidence"] for row in rows] == [row["confidence"] for row in before]
    assert "data:image/png" in Path("run/report.html").read_text(encoding="utf-8")
    works("predict", "run", "pile.tar")
    assert [row["class"] for row in rows_of("run/predictions.csv")] == [row["class"] for row in rows]
    works("export", "run", "sorted")
    assert Counter(path.parent.name for path in Path("sorted").glob("*/*")) == Counter(
        row["class"] for row in rows
    )
    refused(2, ("export", "run", "linked", "--link", "symlink"), "can only be copied")
    works("classes", "run", "move", "ants", *(row["image"] for row in rows[:5]))
    works("discover", "--from", "run", "--out", "next", "--num-novel", "1", *TINY, "encoder=small")
    assert [row["image"] for row in rows_of("next/assignments.csv")] == [row["image"] for row in rows[5:]]
