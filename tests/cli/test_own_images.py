"""A person's own images from beginning to end."""

import csv
import json
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from newfound.engine.checkpoint import Checkpoint
from newfound.experiment import Folder
from newfound.experiment.reopen import found_classes
from tests.cli.calls import TINY, changed, contents, refused, textures, works
from tests.cli.conftest import Finished, OwnImages


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_file_that_cannot_be_read_is_listed_and_left_out(images: OwnImages, own_run: Finished) -> None:
    first, second = own_run.out.splitlines()[:2]
    assert "24 labelled images of 3 known classes, 20 unlabelled for 2 novel classes" in first
    assert "16 x 16 pixels" in first
    assert "some files left out" in first
    assert second.startswith(f"left out: {images.broken}: ")


def test_every_readable_image_of_the_pile_is_assigned(images: OwnImages, own_run: Finished) -> None:
    rows = rows_of(own_run.path / "assignments.csv")
    assert [row["image"] for row in rows] == sorted(map(str, images.pile.glob("*/*.png")))
    assert {row["class"] for row in rows} <= {"novel-1", "novel-2"}


def test_what_nobody_knows_is_not_scored(own_run: Finished) -> None:
    results = json.loads((own_run.path / "results.json").read_text())
    assert "task_aware" not in results
    assert sum(results["cluster_sizes"]) == 20
    refused(2, ("evaluate", own_run.path), "true classes", "nobody knows", "assignments.csv")
    shutil.copytree(own_run.path, "unfinished", ignore=shutil.ignore_patterns("results.json"))
    refused(2, ("evaluate", "unfinished"), "must hold a finished run", "--resume")


def test_the_page_of_what_was_found(own_run: Finished) -> None:
    page = (own_run.path / "report.html").read_text(encoding="utf-8")
    assert own_run.out.splitlines()[-1] == f"to look at what was found, open {own_run.path / 'report.html'}"
    assert "2 new classes in 20 images" in page
    assert "no accuracy can be given" in page
    assert works("report", own_run.path, "--out", "deep/again.html") == "written: deep/again.html\n"
    assert Path("deep/again.html").read_text(encoding="utf-8") == page


def test_figures_that_need_no_truth_are_drawn(own_run: Finished, images: OwnImages) -> None:
    *drawn, left_out = works("figures", own_run.path, "--out", "drawn").splitlines()
    assert drawn == ["drawn/tsne.png", "drawn/tsne.pdf", "drawn/curves.png"]
    assert all(Path(path).stat().st_size > 1000 for path in drawn)
    assert left_out.startswith("left out: the confusion matrices, which need true classes")
    refused(2, ("figures", own_run.path, "--data-dir", "."), "--data-dir", "own images")


@pytest.mark.parametrize("verb", ["figures", "export"])
@pytest.mark.parametrize("part", ["labelled", "pile"])
def test_nothing_is_written_among_the_images(
    verb: str, part: str, own_run: Finished, images: OwnImages
) -> None:
    inside = getattr(images, part) / "new"
    out = ("--out", inside) if verb == "figures" else (inside,)
    refused(2, (verb, own_run.path, *out), "must lie outside of the images", "choose another place")
    assert not inside.exists()


def test_the_map_shows_the_classes_of_the_assignments(own_run: Finished) -> None:
    scores, classes, names, num_known = found_classes(Folder(own_run.path))
    assert (tuple(scores.shape), num_known) == ((44, 5), 3)
    assert classes[:24].tolist() == sorted(8 * [0, 1, 2])
    assert [names[index] for index in classes[24:]] == [
        row["class"] for row in rows_of(own_run.path / "assignments.csv")
    ]


def test_figures_of_images_that_have_changed_are_refused(own_run: Finished, images: OwnImages) -> None:
    copy = Path(shutil.copytree(own_run.path, "copy"))
    config = json.loads((copy / "config.json").read_text())
    config["data"]["unlabelled"] = str(images.pile / "monday")
    (copy / "config.json").write_text(json.dumps(config))
    refused(2, ("figures", copy), "those that the run began with", "have changed", "bring them back")
    refused(2, ("report", copy), "those that the run began with", "have changed", "bring them back")


def test_an_image_that_has_changed_is_named(images: OwnImages) -> None:
    shutil.copytree(images.labelled, "known")
    call = ("discover", "iic", "--labelled", "known", *images.options[2:], *TINY, "encoder=small")
    works(*call, "--out", "run")
    first, *_, last = sorted(path for path in Path("known").rglob("*") if path.is_file())
    last.write_bytes(first.read_bytes())
    refused(
        2,
        (*call, "--out", "run", "--resume"),
        "have changed",
        f"written since: {last.resolve()};",
        "bring them back",
    )


def test_classes_that_have_other_names_are_refused(images: OwnImages) -> None:
    shutil.copytree(images.labelled, "known")
    call = ("discover", "iic", "--labelled", "known", *images.options[2:], *TINY, "encoder=small")
    works(*call, "--out", "run")
    Path("known/crabs").rename("known/dogs")
    for verb in (("report", "run"), ("figures", "run"), (*call, "--out", "run", "--resume")):
        refused(2, verb, "the names that the run began with", "have changed", "give them back")


def test_a_run_is_found_from_another_folder(images: OwnImages) -> None:
    shutil.copytree(images.labelled, "known")
    call = ("discover", "iic", "--labelled", "known", *images.options[2:], *TINY, "encoder=small")
    works(*call, "--out", "run")
    run = Path("run").absolute()
    Path("elsewhere").mkdir()
    os.chdir("elsewhere")
    assert works("report", run, "--out", "page.html") == "written: page.html\n"


def test_a_run_lies_outside_of_its_images(images: OwnImages) -> None:
    shutil.copytree(images.pile, "pile")
    call = ("discover", "iic", *images.options[:3], "pile", *images.options[4:], *TINY, "encoder=small")
    before = contents(Path("pile"))
    for out in ("pile", "pile/run"):
        refused(2, (*call, "--out", out), "must lie outside of the images", "another place")
    assert contents(Path("pile")) == before


def test_weights_that_have_diverged_answer_nothing(images: OwnImages) -> None:
    call = ("discover", "iic", *images.options, *TINY, "encoder=small", "--out", "run")
    works(*call)
    saved = Checkpoint.load(Path("run/checkpoint.safetensors"))
    broken = {key: value * torch.nan if "encoder" in key else value for key, value in saved.weights.items()}
    Checkpoint(broken, saved.moments, saved.state).save(Path("run/checkpoint.safetensors"))
    for verb in (("predict", "run", images.pile), ("report", "run"), ("figures", "run"), (*call, "--resume")):
        refused(1, verb, "got NaN", "has diverged", "a lower lr")
    assert not Path("run/predictions.csv").exists()


def test_heads_that_were_trained_apart_do_not_tell_what_looks_known(images: OwnImages) -> None:
    short = [word for word in TINY if word.partition("=")[0] in ("epochs", "batch_size", "warmup")]
    stages = ("rotnet.epochs=1", "known.epochs=1", "rotnet.warmup=0", "known.warmup=0")
    works("discover", "rs", *images.options, *short, *stages, "encoder=small", "--out", "run")
    page = Path("run/report.html").read_text(encoding="utf-8")
    for words in ("more like a known class", "Of the known classes"):
        assert words not in page
    assert "is a guess" in works("predict", "run", images.pile)


def test_dollars_and_characters_without_a_glyph_are_drawn(images: OwnImages) -> None:
    shutil.copytree(images.labelled, "known")
    Path("known/ants").rename(r"known/$\frac$")
    Path("known/crabs").rename("known/图像类")
    call = ("discover", "iic", "--labelled", "known", *images.options[2:], *TINY, "encoder=small")
    works(*call, "--out", "run")
    assert "tsne.png" in works("figures", "run")


def test_strict_makes_it_fatal(images: OwnImages, own_run: Finished) -> None:
    call = ("discover", "iic", *images.options, *TINY, "encoder=small", "--strict", "--out", "out/run")
    refused(1, call, str(images.broken), "strict")
    assert not Path("out").exists()
    refused(1, ("predict", own_run.path, images.pile, "--strict", "--out", "new.csv"), str(images.broken))
    assert not Path("new.csv").exists()


def test_new_images_get_known_and_novel_names(images: OwnImages, own_run: Finished) -> None:
    textures(Path("new/a"), (160, 0, 0), 3, 7)
    Path("new/b.png").write_bytes(b"no image")
    before = contents(own_run.path)
    out = works("predict", own_run.path, "new", "--out", "deep/new.csv")
    assert "left out: new/b.png: " in out
    assert "written: deep/new.csv" in out
    table = [line.rsplit(maxsplit=1) for line in out.splitlines() if line[-3:].strip().isdigit()]
    counts = Counter(row["class"] for row in rows_of(Path("deep/new.csv")))
    assert {name.strip(): int(size) for name, size in table} == counts
    assert contents(own_run.path) == before
    rows = rows_of(Path("deep/new.csv"))
    assert [row["image"] for row in rows] == [os.path.abspath(f"new/a/0{row}.png") for row in range(3)]
    known = [path.name for path in sorted(images.labelled.iterdir())]
    assert Checkpoint.load(own_run.path / "checkpoint.safetensors").state["class_names"][:3] == known
    assert {row["class"] for row in rows} <= {*known, "novel-1", "novel-2"}


def test_of_many_files_left_out_the_first_are_listed(own_run: Finished) -> None:
    textures(Path("new"), (160, 0, 0), 1, 7)
    for row in range(300):
        Path(f"new/{row:03}.png").write_bytes(b"no image")
    Path("new/notes.doc").touch()
    out = works("predict", own_run.path, "new", "--out", "new.csv")
    kinds, *files, more = (line for line in out.splitlines() if line.startswith("left out: "))
    assert kinds == "left out: new: 1 file ending in .doc, no kind of image that we read"
    assert [line.split(": ")[1] for line in files] == [f"new/{row:03}.png" for row in range(19)]
    assert more == "left out: 281 more, not listed"


def test_images_that_come_out_dark_are_warned_of(images: OwnImages, own_run: Finished) -> None:
    """Before anything is trained, and of new images too."""
    shutil.copytree(images.pile / "monday", "pile")
    for row in range(3):
        Image.fromarray(np.full((16, 16), 4000 + row, np.uint16)).save(f"pile/{row}.tif")
    said = "warning: 3 of 3 files with more than 8 bits look too dark: their values must span 0 (black) to"
    own = ("--labelled", images.labelled, "--unlabelled", "pile")
    few = ("estimate.max_novel=2", "estimate.restarts=1")
    for number in (("--num-novel", "2"), few):
        call = ("discover", *own, *number, *TINY, "encoder=small", "--stop-after", "0s")
        lines = works(*call, "--out", f"run{len(number[0])}").splitlines()
        assert "13 unlabelled" in lines[0]
        assert lines[1].startswith(said)
    assert works("predict", own_run.path, "pile", "--out", "new.csv").startswith(said)


def test_slow_reading_tells_how_it_goes(
    images: OwnImages, own_run: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newfound.data.reading.OFTEN", 0)
    for call, number in (
        (("predict", own_run.path, images.pile / "monday", "--out", "new.csv"), 10),
        (("report", own_run.path, "--out", "page.html"), 45),
        (("discover", *images.options, *TINY, "encoder=small", "--stop-after", "0s", "--out", "run"), 45),
    ):
        lines = works(*call).splitlines()[: number - 1]
        told = [line.rsplit(", ", 1)[0] for line in lines]
        assert told == [f"reading images {done}/{number}" for done in range(1, number)]


def test_known_classes_are_recognised_and_new_ones_found(images: OwnImages) -> None:
    """Plain colours: a few epochs are enough for every verb to be right about all of them."""
    longer = ("epochs=6", "pretrain.epochs=10", "batch_size=20", "pretrain.batch_size=12")
    works("discover", "iic", *images.options, *changed(TINY, *longer), "encoder=small", "--out", "run")
    for number, name in enumerate(("ants", "bees [wild]", "crabs")):
        works("predict", "run", images.labelled / name, "--out", f"known{number}.csv")
        assert {row["class"] for row in rows_of(Path(f"known{number}.csv"))} == {name}
    works("predict", "run", images.pile)
    refused(2, ("predict", "run", images.pile), "predictions.csv is there already")
    found = {
        folder: {row["class"] for row in rows_of(Path("run/predictions.csv")) if folder in row["image"]}
        for folder in ("monday", "tuesday")
    }
    assert sorted(found.values(), key=str) == [{"novel-1"}, {"novel-2"}]
    refused(2, ("predict", "run", images.pile, "--out", images.pile / "new.csv"), "outside of the images")
    shutil.copytree(images.pile / "monday", "new")
    works("predict", "run", "new", "--out", "new.csv")
    works("predict", "run", "new.csv", "--out", "run/again.csv")  # paths that can be read from anywhere
    works("predict", "run", "run/again.csv", "--out", "third.csv")
    assert Path("third.csv").read_text() == Path("new.csv").read_text()


def test_one_known_class_and_one_novel_image_are_enough_with_a_warning(images: OwnImages) -> None:
    textures(Path("known/only"), (160, 0, 0), 4, 8)
    single = images.pile / "monday" / "00.png"
    own = ("--labelled", "known", "--unlabelled", str(single), "--num-novel", "1")
    out = works("discover", "iic", *own, *TINY, "encoder=small", "--out", "run")
    for words in (
        "warning: a single known class",
        "few labelled images: 4 of 'only'; with less than 5",
    ):
        assert out.count(words) == 1
        assert out.index(words) < out.index("pretrain 1/1")
    assert [row["class"] for row in rows_of(Path("run/assignments.csv"))] == ["novel-1"]
