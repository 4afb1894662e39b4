"""A user's own images, from every form in which they may come, and what is wrong with some of them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from newfound.core.errors import DataError, UsageError
from newfound.data.files import BY_NAME
from newfound.data.images import ResidentImages
from newfound.data.own import load_own, load_pile

Paint = Callable[..., str]
RED, GREEN = (255, 0, 0), (0, 255, 0)


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
    dataset = load_own(labelled, pile, 2, None, strict=True)
    split = dataset.split
    assert dataset.truth is None
    assert dataset.class_names == ("ant", "cat", "novel-1", "novel-2")
    assert split.labels.tolist() == [0, 0, 1, 1, 1]
    assert split.labels.dtype == torch.int64
    assert isinstance(split.labelled, ResidentImages)
    assert split.labelled.pixels[0, :, 0, 0].tolist() == list(GREEN)
    assert split.labelled.pixels[4, :, 0, 0].tolist() == list(RED)
    assert len(split.unlabelled) == 6
    assert (split.look.size, split.look.stored, split.look.kind) == (20, 20, "cifar")
    assert "5 labelled images of 2 known classes, 6 unlabelled for 2 novel classes, 20 x 20" in dataset.note
    assert "the size of every image" in dataset.note
    assert dataset.skipped == ()


def test_places_may_be_named_by_text(labelled: Path, pile: Path) -> None:
    by_text, by_path = load_own(str(labelled), str(pile), 2), load_own(labelled, pile, 2, None, strict=False)
    assert by_text.fingerprint() == by_path.fingerprint()
    assert (by_text.name, by_text.class_names) == (by_path.name, by_path.class_names)


def test_a_flat_pile_with_hidden_and_other_files(labelled: Path, tmp_path: Path, paint: Paint) -> None:
    for name in ("1.png", "2.JPG", ".hidden.png", "sub/._1.jpg", ".cache/3.png"):
        paint(tmp_path / "flat" / name)
    for name in ("1.heic", "2.HEIC", "README", ".DS_Store"):
        (tmp_path / "flat" / name).write_text("not an image")
    (tmp_path / "flat" / os.fsdecode(b"\xff\xe9.png")).write_bytes((tmp_path / "flat" / "1.png").read_bytes())
    dataset = load_own(labelled, tmp_path / "flat", 1, None, strict=True)
    assert [Path(name).name for name in dataset.split.unlabelled.names] == ["1.png", "2.JPG"]
    assert {line.removeprefix(f"{tmp_path / 'flat'}: ").split(", ")[0] for line in dataset.skipped} == {
        "2 files ending in .heic",
        "1 file without a suffix",
        "1 file whose name is not UTF-8; rename it",
        "2 files whose name begins with a dot",
    }


def test_many_kinds_of_other_files_take_a_few_lines(labelled: Path, pile: Path) -> None:
    for number in range(300):
        (pile / f"scan.{number:04}").touch()
    lines = load_own(labelled, pile, 1, None, strict=True).skipped
    assert len(lines) == 6
    assert lines[-1] == f"{pile}: 295 files of other kinds, not looked at; {BY_NAME}"


def test_images_without_a_suffix_load_from_a_csv(labelled: Path, pile: Path, paint: Paint) -> None:
    Path(paint(pile / "b" / "0.png")).rename(pile / "8f3a")
    (said,) = load_own(labelled, pile, 1, None, strict=True).skipped
    assert said == f"{pile}: 1 file without a suffix, not looked at; {BY_NAME}"
    (pile / "these.csv").write_text("8f3a\n")
    assert list(load_pile(pile / "these.csv", 8, strict=True)[0].names) == [str(pile / "8f3a")]


def test_a_class_without_a_readable_image_is_warned_of(labelled: Path, pile: Path) -> None:
    (labelled / "gone").mkdir()
    (labelled / "gone" / "0.png").write_text("no image")
    found = load_own(labelled, pile, 1, None)
    assert "gone" not in found.class_names
    assert any("without an image that can be read are left out: gone" in each for each in found.warnings)


def test_a_list_of_files(labelled: Path, pile: Path, tmp_path: Path, paint: Paint) -> None:
    elsewhere = paint(tmp_path / "elsewhere" / "x.png")
    (tmp_path / "list.txt").write_text(f"pile/a/0.png\r\n\npile/a/1.png\n{elsewhere}\n")
    names = load_own(labelled, tmp_path / "list.txt", 2, None, strict=True).split.unlabelled.names
    assert list(names) == [str(pile / "a" / "0.png"), str(pile / "a" / "1.png"), elsewhere]


@pytest.mark.parametrize(
    "text",
    [
        "known/cat/0.png,cat\nknown/ant/deep/0.png,ant\npile/a/0.png,\npile/a/1.png\n",
        "\ufefflabel,path\ncat,known/cat/0.png\n ant , known/ant/deep/0.png\n,pile/a/0.png\n,pile/a/1.png\n",
    ],
)
def test_one_csv_for_both(labelled: Path, pile: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "all.csv").write_text(text, encoding="utf-8")
    dataset = load_own(tmp_path / "all.csv", tmp_path / "all.csv", 2, None, strict=True)
    assert dataset.class_names[:2] == ("ant", "cat")
    assert dataset.split.labels.tolist() == [1, 0]
    assert list(dataset.split.unlabelled.names) == [str(pile / "a" / f"{n}.png") for n in range(2)]


def test_our_own_assignments_and_repeated_files(labelled: Path, pile: Path, tmp_path: Path) -> None:
    (tmp_path / "ours.csv").write_text(
        "image,class,confidence\npile/a/0.png,novel-1,0.9\npile/a/1.png,novel-2,0.8\npile/a/../a/0.png,,\n"
    )
    dataset = load_own(labelled, tmp_path / "ours.csv", 2, None, strict=True)
    assert len(dataset.split.unlabelled) == 2
    repeated = f"{tmp_path}/pile/a/../a/0.png: the same file as {tmp_path}/pile/a/0.png, named before"
    assert dataset.skipped == (repeated,)
    assert len(load_pile(tmp_path / "ours.csv", 8, strict=True)[0]) == 2


def test_labels_in_the_pile_do_not_exist(labelled: Path, pile: Path, tmp_path: Path) -> None:
    (tmp_path / "pile.csv").write_text("pile/a/0.png,zebra\npile/a/1.png,yak\n")
    dataset = load_own(labelled, tmp_path / "pile.csv", 2, None, strict=True)
    assert dataset.truth is None
    assert "zebra" not in dataset.class_names
    (tmp_path / "pile.csv").write_text("pile/a/0.png,zebra\npile/a/1.png,cat\n")
    with pytest.raises(DataError, match="must not overlap; got 'cat' both"):
        load_own(labelled, tmp_path / "pile.csv", 2, None, strict=True)


def test_sizes_differ(labelled: Path, pile: Path, paint: Paint) -> None:
    for number in range(12):
        paint(pile / f"wide{number}.png", size=(200, 100 + number))
    dataset = load_own(labelled, pile, 1, None, strict=True)
    assert dataset.split.labelled.size == dataset.split.unlabelled.size == (96, 96)
    assert dataset.split.look.kind == "imagenet"
    assert (
        "96 x 96 pixels (of 32, 64, 96, 128, 224 the nearest to the median of the shorter sides, 100)"
        in dataset.note
    )
    asked = load_own(labelled, pile, 1, 40, strict=True)
    assert asked.split.labelled.size == (40, 40)
    assert "as asked" in asked.note


def test_a_subset_thins_each_class_and_the_pile(labelled: Path, pile: Path) -> None:
    dataset = load_own(labelled, pile, 2, None, strict=True, subset=1)
    assert dataset.split.labels.tolist() == [0, 1]
    assert [Path(name).stem for name in dataset.split.unlabelled.names] == ["0", "3"]


def test_a_known_class_called_novel(labelled: Path, pile: Path, paint: Paint) -> None:
    paint(labelled / "novel-1" / "0.png")
    assert load_own(labelled, pile, 2, None, strict=True).class_names[2:] == ("novel-1", "novel-2", "novel-3")


def test_what_cannot_be_used_is_listed_or_fatal(labelled: Path, pile: Path, paint: Paint) -> None:
    broken = labelled / "cat" / "1.png"
    broken.write_bytes(broken.read_bytes()[:60])
    loose, empty = paint(labelled / "loose.png"), labelled / "empty"
    empty.mkdir()
    dataset = load_own(labelled, pile, 2, None, strict=False)
    assert dataset.split.labels.tolist() == [0, 0, 1, 1]
    assert [line.split(": ")[0] for line in dataset.skipped] == [loose, str(empty), str(broken)]
    assert "some files left out" in dataset.note
    with pytest.raises(DataError, match=r"loose\.png: in no class folder; .*strict"):
        load_own(labelled, pile, 2, None, strict=True)
    Path(loose).unlink()
    empty.rmdir()
    with pytest.raises(DataError, match=r"1\.png: .*; every file must be readable with strict"):
        load_own(labelled, pile, 2, None, strict=True)


def test_a_pipe_is_no_image(labelled: Path, pile: Path, tmp_path: Path) -> None:
    pipe, link, files = pile / "b" / "pipe.png", labelled / "cat" / "link.png", tmp_path / "files.txt"
    os.mkfifo(pipe)
    os.mkfifo(tmp_path / "another")
    link.symlink_to(tmp_path / "another")
    files.write_text(f"{pipe}\n{pile / 'a' / '0.png'}\n")
    said = [f"{link}: not a regular file", f"{pipe}: not a regular file"]
    for unlabelled in (pile, files):
        assert list(load_own(labelled, unlabelled, 1).skipped) == said
        assert list(load_pile(unlabelled, 24, strict=False)[1]) == said[1:]


def test_a_class_that_cannot_be_read_at_all_is_no_class(labelled: Path, pile: Path) -> None:
    for path in (labelled / "ant" / "deep").iterdir():
        path.write_text("no image")
    dataset = load_own(labelled, pile, 2, None, strict=False)
    assert dataset.class_names[0] == "cat"
    assert (dataset.split.task.num_known, dataset.split.labels.tolist()) == (1, [0, 0, 0])


def test_nothing_readable(labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.png").write_text("no image")
    with pytest.raises(DataError, match=r"got 1 and could read none, first .*a\.png"):
        load_own(labelled, tmp_path / "bad", 1, None, strict=False)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1)
    with pytest.raises(DataError, match=r"could read none, first .*: more than 2 pixels"):
        load_own(labelled, tmp_path / "bad", 1, None, strict=False)


def test_the_same_image_on_both_sides(labelled: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="labelled or unlabelled; got 5 as both"):
        load_own(labelled, tmp_path, 1, None, strict=True)


def test_missing_and_empty_folders(labelled: Path, pile: Path, tmp_path: Path) -> None:
    empty, missing = tmp_path / "empty", tmp_path / "missing"
    empty.mkdir()
    with pytest.raises(
        DataError, match=r"labelled images must be a folder.*got .*missing, which does not exist"
    ):
        load_own(missing, pile, 1, None, strict=False)
    with pytest.raises(DataError, match=r"unlabelled images must be a folder.*missing, which does not exist"):
        load_own(labelled, missing, 1, None, strict=False)
    with pytest.raises(DataError, match="one folder of images for each known class; got 0 folders"):
        load_own(empty, pile, 1, None, strict=False)
    with pytest.raises(DataError, match="empty must hold images; got none"):
        load_own(labelled, empty, 1, None, strict=False)
    for name in ("x", "y"):
        (empty / name).mkdir()
    with pytest.raises(DataError, match="got 2 folders without images and 0 images outside them"):
        load_own(empty, pile, 1, None, strict=False)


def test_impossible_numbers(labelled: Path, pile: Path) -> None:
    with pytest.raises(UsageError, match="num_novel must be at least 1 class to discover; got 0"):
        load_own(labelled, pile, 0, None, strict=False)
    with pytest.raises(DataError, match="got 6 images for 7 classes"):
        load_own(labelled, pile, 7, None, strict=False)
    with pytest.raises(UsageError, match="size must be at least 8"):
        load_own(labelled, pile, 1, 4, strict=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must hold rows of path and label; got none"),
        ("path,label\n", "must hold rows of path and label; got none"),
        ("path,label,Label\na.png,cat,dog\n", "must have one column label; got the header"),
        ("image,class,image\na.png,cat,b.png\n", "must have one column image; got the header"),
        (",cat\n", "rows that begin with a path; got the first row ',cat'"),
        ("known/cat/0.png,cat\n,cat\n", "each row must name a file; got ',cat'"),
        ("path;label\na.png;cat\n", "commas between cells; got semicolons, first 'path;label'"),
        ("known/cat/0.png\tcat\n", "commas between cells; got tabs"),
        ('"known/cat/0.png,cat\n', "at line 1; look for a quotation mark that is never closed"),
        ("known/cat/0.png\0,cat\n", "must be a text file in UTF-8"),
        ("path,species\nknown/cat/0.png,cat\n", "in one called label or class; got 1 rows without"),
        ("pile/a/0.png,\n", "in one called label or class; got 1 rows without"),
        ("known/cat/0.png,cat\n", "must hold images without a label; got none"),
    ],
)
def test_bad_csv(labelled: Path, pile: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        load_own(tmp_path / "bad.csv", tmp_path / "bad.csv", 1, None, strict=False)


def test_a_csv_in_another_encoding(pile: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_bytes("a.png,Bär\n".encode("latin-1"))
    with pytest.raises(DataError, match="must be a text file in UTF-8"):
        load_own(tmp_path / "bad.csv", pile, 1, None, strict=False)


def test_a_pile_for_prediction(pile: Path, tmp_path: Path) -> None:
    (pile / "bad.png").write_text("no image")
    images, skipped = load_pile(pile, 24, strict=False)
    assert (len(images), images.size) == (6, (24, 24))
    assert len(skipped) == 1
    one, _ = load_pile(pile / "a" / "0.png", 24, strict=True)
    assert np.array_equal(one.take(torch.tensor([0])), images.take(torch.tensor([0])))
    with pytest.raises(DataError, match="strict"):
        load_pile(pile, 24, strict=True)


def test_an_image_with_two_labels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "known.csv").write_text("path,label\na.png,cat\nb.png,dog\na.png,dog\n")
    (tmp_path / "pile.txt").write_text("c.png\n")
    with pytest.raises(DataError, match=r"one label; got 'cat' and 'dog' for .*a\.png; keep the right one"):
        load_own(tmp_path / "known.csv", tmp_path / "pile.txt", 1, None, strict=False)


def test_folders_behind_links_count_once(labelled: Path, tmp_path: Path, paint: Paint) -> None:
    paint(tmp_path / "elsewhere" / "0.png")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "there").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "linked" / "round").symlink_to(tmp_path / "linked")
    names = load_own(labelled, tmp_path / "linked", 1, None, strict=True).split.unlabelled.names
    assert list(names) == [str(tmp_path / "linked" / "there" / "0.png")]


def test_folders_that_cannot_be_read_are_an_error(
    labelled: Path, pile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = os.scandir

    def refuse(path: str | Path) -> Any:
        if str(path) == str(pile / "a"):
            raise PermissionError(13, "Permission denied", str(path))
        return listing(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match=r"a must be a folder that can be read; got: Permission denied; mend"):
        load_own(labelled, pile, 2, None, strict=False)

    def closed(path: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", closed)
    with pytest.raises(DataError, match=r"known must be a folder that can be read; got: Permission denied"):
        load_own(labelled, pile, 2, None, strict=False)


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "a\u2028b"])
def test_a_class_whose_name_is_not_one_line(labelled: Path, pile: Path, paint: Paint, name: str) -> None:
    image = paint(labelled / name / "0.png")
    table = pile.parent / "known.csv"
    table.write_text(f'{pile / "x.png"},plain\n{pile / "y.png"},"{name}"\n')
    for source in (labelled, table):
        with pytest.raises(DataError, match="must be one line without control characters") as caught:
            load_own(source, pile, 2, None, strict=False)
        assert repr(name) in str(caught.value)
        assert str(caught.value).isprintable()
    Path(image).parent.rename(labelled / "zero\u200djoiner")
    assert "zero\u200djoiner" in load_own(labelled, pile, 2, None, strict=False).class_names


def test_a_hidden_class_folder_is_listed(labelled: Path, pile: Path, paint: Paint) -> None:
    paint(labelled / "..x" / "0.png")
    assert load_own(labelled, pile, 2, None, strict=False).skipped == (
        f"{labelled / '..x'}: a hidden folder",
    )


def test_a_file_of_another_kind_is_no_list(labelled: Path, tmp_path: Path) -> None:
    (tmp_path / "a.heic").write_text("words")
    with pytest.raises(
        DataError, match=r"a\.heic, no kind of file that we read; convert it, or name it \.txt"
    ):
        load_own(labelled, tmp_path / "a.heic", 1, None, strict=False)
