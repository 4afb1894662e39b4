"""A user's own images in every form they may come in, and what may be wrong with them."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from newfound.core.errors import DataError, NewfoundError, UsageError
from newfound.data import files
from newfound.data.folders import from_folders, load_pile
from newfound.data.images import ResidentImages
from tests.data.conftest import Paint

RED, GREEN = (255, 0, 0), (0, 255, 0)
strictly = partial(from_folders, strict=True)


@pytest.fixture
def labelled(tmp_path: Path, paint: Paint) -> Path:
    for number in range(3):
        paint(tmp_path / "known" / "cat" / f"{number}.png", RED)
    for number in range(2):
        paint(tmp_path / "known" / "ant" / "deep" / f"{number}.png", GREEN)
    return tmp_path / "known"


@pytest.fixture
def pile(tmp_path: Path, paint: Paint) -> Path:
    for number in range(6):
        paint(tmp_path / "pile" / ("a" if number < 3 else "b/c") / f"{number}.png")
    return tmp_path / "pile"


def test_folders(labelled: Path, pile: Path) -> None:
    dataset = strictly(labelled, pile, 2)
    split = dataset.split
    assert dataset.truth is None
    assert dataset.class_names == ("ant", "cat", "novel-1", "novel-2")
    assert split.labels.tolist() == [0, 0, 1, 1, 1]
    assert split.labels.dtype == torch.int64
    assert isinstance(split.labelled, ResidentImages)
    assert split.labelled.pixels[[0, 4], :, 0, 0].tolist() == [list(GREEN), list(RED)]
    assert len(split.unlabelled) == 6
    assert (split.look.size, split.look.stored, split.look.kind) == (20, 20, "cifar")
    assert "20 x 20 pixels (the size of every image)" in dataset.note
    assert dataset.skipped == ()
    unknown = strictly(str(labelled), str(pile))
    assert (unknown.num_known, unknown.num_novel, unknown.class_names) == (2, None, ("ant", "cat"))
    assert unknown.with_num_novel(2).fingerprint() == dataset.fingerprint()


def test_links_to_themselves_and_pipes_are_left_out(labelled: Path, pile: Path) -> None:
    """Reading a pipe that nobody writes to would take for ever."""
    for folder in (pile, labelled / "cat"):
        (folder / "loop.png").symlink_to("loop.png")
        (folder / "folder").symlink_to("folder")
        os.mkfifo(folder / "pipe.png")
    dataset = from_folders(labelled, pile, 2)
    assert (len(dataset.split.labelled), len(dataset.split.unlabelled)) == (5, 6)
    reasons = [line.partition(": ")[2] for line in dataset.skipped if line.count(".png")]
    assert sorted(reasons) == 2 * ["Not a regular file"] + 2 * ["Too many levels of symbolic links"]
    images, left_out = load_pile(pile, 20, strict=False)
    assert (len(images), len(left_out)) == (6, 3)


@pytest.mark.parametrize("name", ["list.txt", "table.csv", "image.png", "loop"])
def test_a_list_that_is_a_pipe_or_a_loop_is_refused(name: str, labelled: Path, tmp_path: Path) -> None:
    path = tmp_path / name
    path.symlink_to(name) if name == "loop" else os.mkfifo(path)
    for given in ((path, labelled, 2), (labelled, path, 2)):
        with pytest.raises(DataError, match=f"Cannot read the .*labelled images: {path}"):
            from_folders(*given)


def test_a_missing_label_is_no_class(labelled: Path, tmp_path: Path) -> None:
    """As pandas and numpy write it."""
    cells = zip(sorted(labelled.rglob("*.png")), ["ant", "ant", "nan", "None", ""], strict=True)
    (tmp_path / "all.csv").write_text("".join(f"{path},{label}\n" for path, label in cells))
    dataset = from_folders(tmp_path / "all.csv", tmp_path / "all.csv", 1)
    assert dataset.class_names == ("ant", "novel-1")
    assert len(dataset.split.unlabelled) == 3


def test_spaces_around_a_class_name_do_not_count(labelled: Path, pile: Path, tmp_path: Path) -> None:
    (labelled / "ant").rename(labelled / "ant ")
    assert strictly(labelled, pile, 1).class_names[:2] == ("ant", "cat")


@pytest.fixture
def no_heic(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if pillow-heif was not installed."""
    monkeypatch.setattr(files, "SUFFIXES", files.SUFFIXES - {*files.HEIC})


@pytest.mark.usefixtures("no_heic")
def test_hidden_and_other_files(labelled: Path, tmp_path: Path, paint: Paint) -> None:
    flat = tmp_path / "flat"
    for name in ("1.png", "2.JPG", ".hidden.png", "sub/._1.jpg", ".cache/3.png"):
        paint(flat / name)
    for name in ("1.heic", "2.HEIC", "3.heic", "README", ".DS_Store"):
        (flat / name).write_text("not an image")
    (flat / os.fsdecode(b"\xff\xe9.png")).write_bytes((flat / "1.png").read_bytes())
    dataset = strictly(labelled, flat, 1)
    assert [Path(name).name for name in dataset.split.unlabelled.names] == ["1.png", "2.JPG"]
    (line,) = dataset.skipped
    assert line.startswith(f"{flat}: 7 other files (3 .heic, 2 hidden, 1 ")
    for kind in ("1 without a suffix", "1 with a name that is not UTF-8"):
        assert kind in line
    assert line.endswith("; pip install 'newfound[heic]' to read .heic")


def test_lists_of_files(labelled: Path, pile: Path, tmp_path: Path, paint: Paint) -> None:
    elsewhere = paint(tmp_path / "elsewhere" / "x.png")
    (tmp_path / "list.txt").write_text(f"pile/a/0.png\r\n\npile/a/1.png\n{elsewhere}\n")
    names = strictly(labelled, tmp_path / "list.txt", 2).split.unlabelled.names
    assert list(names) == [str(pile / "a" / "0.png"), str(pile / "a" / "1.png"), elsewhere]
    Path(paint(pile / "b" / "0.png")).rename(pile / "8f3a")  # a CSV may name what a folder leaves out
    (pile / "these.csv").write_text("8f3a\n")
    assert list(load_pile(pile / "these.csv", 8, strict=True)[0].names) == [str(pile / "8f3a")]


@pytest.mark.parametrize(
    "text",
    [
        "known/cat/0.png,cat\nknown/ant/deep/0.png,ant\npile/a/0.png,\npile/a/1.png\n",
        "\ufefflabel,path\ncat,known/cat/0.png\n ant , known/ant/deep/0.png\n,pile/a/0.png\n"
        "unsorted,pile/a/1.png\n",
    ],
)
def test_one_csv_for_both(labelled: Path, pile: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "all.csv").write_text(text, encoding="utf-8")
    dataset = strictly(tmp_path / "all.csv", tmp_path / "all.csv", 2)
    assert dataset.class_names[:2] == ("ant", "cat")
    assert dataset.split.labels.tolist() == [1, 0]
    assert list(dataset.split.unlabelled.names) == [str(pile / "a" / f"{n}.png") for n in range(2)]


def test_our_own_assignments_and_repeated_files(labelled: Path, pile: Path, tmp_path: Path) -> None:
    """Labels of unlabelled images are ignored, unless they are those of known classes."""
    (tmp_path / "ours.csv").write_text(
        "image,class,confidence\npile/a/0.png,novel-1,0.9\npile/a/1.png,zebra,0.8\npile/a/../a/0.png,,\n"
    )
    dataset = strictly(labelled, tmp_path / "ours.csv", 2)
    assert len(dataset.split.unlabelled) == 2
    assert "zebra" not in dataset.class_names
    again = f"{tmp_path}/pile/a/../a/0.png: the same file as {tmp_path}/pile/a/0.png"
    assert dataset.skipped == (again,)
    assert len(load_pile(tmp_path / "ours.csv", 8, strict=True)[0]) == 2
    (tmp_path / "pile.csv").write_text("pile/a/0.png,zebra\npile/a/1.png,cat\n")
    with pytest.raises(DataError, match="'cat' is a known class"):
        from_folders(labelled, tmp_path / "pile.csv", 2, pile="novel")
    assert len(from_folders(labelled, tmp_path / "pile.csv", 2).split.unlabelled) == 2


def test_sizes_differ(labelled: Path, pile: Path, paint: Paint) -> None:
    for number in range(12):
        paint(pile / f"wide{number}.png", size=(200, 100 + number))
    dataset = strictly(labelled, pile, 1)
    assert dataset.split.labelled.size == dataset.split.unlabelled.size == (96, 96)
    assert dataset.split.look.kind == "imagenet"
    assert dataset.size_reason.endswith("the median shorter side, 100")
    requested = strictly(labelled, pile, 1, size=40)
    assert (requested.split.labelled.size, requested.size_reason) == ((40, 40), "as requested")


def test_a_subset_thins_each_class_and_the_pile(labelled: Path, pile: Path) -> None:
    dataset = strictly(labelled, pile, 2, subset=1)
    assert dataset.split.labels.tolist() == [0, 1]
    assert [Path(name).stem for name in dataset.split.unlabelled.names] == ["0", "3"]
    with pytest.raises(UsageError, match="needs the number of novel classes"):
        strictly(labelled, pile, subset=1)


def test_what_cannot_be_used_is_listed(labelled: Path, pile: Path, paint: Paint) -> None:
    broken = labelled / "cat" / "1.png"
    broken.write_bytes(broken.read_bytes()[:60])
    loose, empty, hidden = paint(labelled / "loose.png"), labelled / "empty", labelled / "..x"
    empty.mkdir()
    paint(hidden / "0.png")
    dataset = from_folders(labelled, pile, 2)
    assert dataset.split.labels.tolist() == [0, 0, 1, 1]
    names = [loose, str(empty), str(hidden), str(broken)]
    assert [line.split(": ")[0] for line in dataset.skipped] == names
    assert "some files left out" in dataset.note
    for path in (labelled / "ant" / "deep").iterdir():
        path.write_text("no image")
    dataset = from_folders(labelled, pile, 2)
    assert (dataset.class_names[0], dataset.split.labels.tolist()) == ("cat", [0, 0])
    assert any("without a readable image were left out: ant" in each for each in dataset.warnings)


def test_nothing_readable(labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.png").write_text("no image")
    with pytest.raises(DataError, match=r"None of 1 image files .*a\.png"):
        from_folders(labelled, tmp_path / "bad", 1)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1)
    with pytest.raises(DataError, match=r"None of 5 image files .*more than 2 pixels"):
        from_folders(labelled, tmp_path / "bad", 1)


@pytest.mark.usefixtures("no_heic")
def test_missing_and_empty_folders(labelled: Path, pile: Path, tmp_path: Path) -> None:
    empty, missing, phone = tmp_path / "empty", tmp_path / "missing", tmp_path / "phone"
    (empty / "x").mkdir(parents=True)
    (phone / "cat").mkdir(parents=True)
    for path in (tmp_path / "a.heic", phone / "cat" / "b.heic"):
        path.write_text("words")
    install = r"; pip install 'newfound\[heic\]' to read \.heic\."
    for known, others, text in (
        (missing, pile, "labelled images: .*missing does not exist"),
        (labelled, missing, "unlabelled images: .*missing does not exist"),
        (pile / "a" / "0.png", pile, "is not a folder with one subfolder"),
        (empty, pile, "1 empty subfolder and 0 images outside"),
        (labelled, empty, "empty contains no images"),
        (labelled, tmp_path / "a.heic", rf"a\.heic is not a folder of images.*{install}"),
        (labelled, phone, f"phone contains no images.*{install}"),
        (phone, pile, f"1 empty subfolder and 0 images outside them{install}"),
        (labelled, tmp_path, "5 are in two known classes, or labelled and unlabelled"),
    ):
        with pytest.raises(DataError, match=text):
            from_folders(known, others, 1)


@pytest.mark.parametrize(
    ("given", "text"),
    [({"num_novel": 0}, "num_novel"), ({"size": 4}, "size"), ({"num_novel": 1, "subset": 0}, "subset")],
)
def test_impossible_numbers(labelled: Path, pile: Path, given: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=f"'{text}' must be at least"):
        from_folders(labelled, pile, **given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "labels no image"),
        ("path,label\n", "labels no image"),
        ("path,species\nknown/cat/0.png,cat\n", "labels no image"),
        (",cat\n", "its first row is ',cat'"),
        ("path;label\na.png;cat\n", "commas between cells; its first row is 'path;label'"),
        ("known/cat/0.png\tcat\n", "commas between cells"),
        ('"known/cat/0.png,cat\n', "not a valid CSV: .*line 1"),
        ("known/cat/0.png,cat\n", "no unlabelled images"),
        ("path,label\na.png,cat\nb.png,dog\na.png,dog\n,\nc.png,\n", r"1 are in two .*a\.png"),
        ("a.png,Bär\n", "UTF-8"),
    ],
)
def test_bad_csv(labelled: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.csv").write_text(text, encoding="latin-1")
    with pytest.raises(NewfoundError, match=message):
        from_folders(tmp_path / "bad.csv", tmp_path / "bad.csv", 1)


def test_a_pile_for_prediction(pile: Path, caplog: pytest.LogCaptureFixture) -> None:
    (pile / "bad.png").write_text("no image")
    images, skipped = load_pile(pile, 24, strict=False)
    assert (len(images), images.size, len(skipped)) == (6, (24, 24), 1)
    one, _ = load_pile(pile / "a" / "0.png", 24, strict=True)
    assert np.array_equal(one.take(torch.tensor([0])), images.take(torch.tensor([0])))
    with pytest.raises(DataError, match=r"bad\.png.*strict"):
        load_pile(pile, 24, strict=True)
    Image.fromarray(np.full((8, 8), 4000, np.uint16)).save(pile / "dark.tif")
    load_pile(pile, 24, strict=False)
    assert "look too dark" in caplog.text


def test_folders_behind_links_count_once(labelled: Path, tmp_path: Path, paint: Paint) -> None:
    paint(tmp_path / "elsewhere" / "0.png")
    (tmp_path / "linked").mkdir()
    for name, target in (("there", "elsewhere"), ("round", "linked"), ("loop.png", "linked/loop.png")):
        (tmp_path / "linked" / name).symlink_to(tmp_path / target)
    dataset = from_folders(labelled, tmp_path / "linked", 1)
    assert list(dataset.split.unlabelled.names) == [str(tmp_path / "linked" / "there" / "0.png")]
    assert [line.split(": ")[0] for line in dataset.skipped] == [str(tmp_path / "linked" / "loop.png")]


def test_folders_that_cannot_be_read(labelled: Path, pile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = os.scandir

    def refuse(path: str | Path) -> Any:
        if str(path) in (str(labelled), str(pile / "a")):
            raise PermissionError(13, "Permission denied", str(path))
        return listing(path)

    monkeypatch.setattr(os, "scandir", refuse)
    for known, refused in ((labelled, labelled), (labelled / "ant", pile / "a")):
        with pytest.raises(DataError, match=rf"^Permission denied: {refused}$"):
            from_folders(known, pile, 2)
