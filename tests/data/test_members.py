"""Images in tar files and datasets are read like files of their own, with the labels that come with them."""

import io
import json
import pickle
import re
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from newfound.core.errors import DataError, UsageError
from newfound.core.files import located
from newfound.core.source import Source
from newfound.data import folders, members, workers
from newfound.data.decode import digests_of
from newfound.data.files import labelled_files, unlabelled_files
from newfound.data.folders import from_folders, load_pile, usual_side
from newfound.data.images import ResidentImages, StreamedImages
from newfound.data.members import is_there, read_image, size_of


def picture(level: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), level, np.uint8)).save(file, "PNG")
    return file.getvalue()


def write_tar(path: Path, contents: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in contents.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))


@pytest.fixture
def known(tmp_path: Path) -> Path:
    """Each of the three ways to name a class."""
    cls = {
        f"a{row}.{kind}": picture(row) if kind == "png" else b"ant\n"
        for row in (1, 2)
        for kind in ("png", "cls")
    }
    says = {f"b{row}.json": json.dumps({"label": "bee", "width": 8}).encode() for row in (3, 4)}
    write_tar(tmp_path / "known" / "0.tar", cls | says | {f"b{row}.png": picture(row) for row in (3, 4)})
    folder = {f"./train/cat/{row}.png": picture(row) for row in (5, 6)} | {"train/cat/5.json": b"[1]"}
    write_tar(tmp_path / "known" / "1.tar", folder | {"train/cat/._5.png": b"hidden", "notes.txt": b"none"})
    return tmp_path / "known"


@pytest.fixture
def pile(tmp_path: Path) -> Path:
    for part in (0, 1):
        contents = {f"x/{10 * part + row}.png": picture(100 + 10 * part + row) for row in range(4)}
        write_tar(tmp_path / "pile" / f"part-{part:03}.tar", contents)
    return tmp_path / "pile"


def levels(images: ResidentImages) -> list[int]:
    return images.pixels[:, 0, 0, 0].tolist()


def test_a_data_set_of_tar_files(known: Path, pile: Path) -> None:
    pytest.importorskip("braceexpand", reason="webdataset is not installed")
    data = from_folders(known, pile / "part-{000..001}.tar", 2, strict=True)
    assert data.class_names[:3] == ("ant", "bee", "cat")
    assert data.split.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert isinstance(data.split.labelled, ResidentImages)
    assert isinstance(data.split.unlabelled, ResidentImages)
    assert levels(data.split.labelled) == [1, 2, 3, 4, 5, 6]
    assert levels(data.split.unlabelled) == [100, 101, 102, 103, 110, 111, 112, 113]
    assert data.split.unlabelled.names[4] == f"{pile}/part-001.tar/x/10.png"
    assert not data.skipped
    assert from_folders(known, pile, 2).fingerprint() == data.fingerprint()
    one = from_folders(known, pile / "part-001.tar", 2)
    assert len(one.split.unlabelled) == 4
    for place in (pile.parent / "pile" / "*.tar", pile / "part-*.tar", f"file://{pile}"):
        assert from_folders(known, place, 2).fingerprint() == data.fingerprint()


def test_tar_files_in_subfolders_are_found(tmp_path: Path, known: Path, pile: Path) -> None:
    data = from_folders(known, pile, 1)
    shutil.move(known, tmp_path / "deep" / "known")
    assert from_folders(tmp_path / "deep", pile, 1).fingerprint() == data.fingerprint()


def test_members_are_read_like_files(pile: Path) -> None:
    path = f"{pile}/part-001.tar/x/12.png"
    assert read_image(path) == picture(112)
    assert size_of(path) == len(picture(112))
    assert is_there(path)
    assert not is_there(f"{pile}/part-001.tar/x/99.png")
    assert digests_of([f"{pile}/part-001.tar/99.png"], strict=False)[1] == [
        f"{pile}/part-001.tar/99.png: No such file in the tar file"
    ]
    plain = pile / "a.tar" / "1.png"
    plain.parent.mkdir()
    plain.write_bytes(picture(7))
    assert read_image(plain) == picture(7)


def test_a_csv_may_name_members(known: Path, pile: Path) -> None:
    rows = ["path,label", "known/0.tar/a1.png,one", "known/0.tar/b3.png,two", "pile/part-000.tar/x/1.png,"]
    (pile.parent / "all.csv").write_text("\n".join(rows))
    data = from_folders(pile.parent / "all.csv", pile.parent / "all.csv", 1)
    assert data.class_names[:2] == ("one", "two")
    assert isinstance(data.split.unlabelled, ResidentImages)
    assert levels(data.split.unlabelled) == [101]


def test_members_are_streamed_by_workers(pile: Path, known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "RESIDENT_BYTES", 0)
    monkeypatch.setattr(workers, "FEWEST", 0)
    split = from_folders(known, pile, 2).split
    assert isinstance(split.unlabelled, StreamedImages)
    (taken,) = split.unlabelled.take_each([torch.tensor([7, 0, 3])])
    assert taken[:, 0, 0, 0].tolist() == [113, 100, 103]
    before = split.unlabelled.fingerprint()
    shutil.move(pile, pile.parent / "moved")
    assert from_folders(known, pile.parent / "moved", 2).split.unlabelled.fingerprint() == before
    write_tar(pile.parent / "moved" / "part-001.tar", {f"x/{row}.png": picture(row) * 2 for row in range(4)})
    assert from_folders(known, pile.parent / "moved", 2).split.unlabelled.fingerprint() != before


def test_headers_are_read_once_in_a_process_and_not_in_its_workers(
    tmp_path: Path, pile: Path, known: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed, log = members.indexed, tmp_path / "log"

    def logged(tar: str) -> list[str]:
        with log.open("a") as file:
            file.write(f"{tar}\n")
        return indexed(tar)

    monkeypatch.setattr(members, "indexed", logged)
    monkeypatch.setattr(folders, "RESIDENT_BYTES", 0)
    monkeypatch.setattr(workers, "FEWEST", 0)
    tars = [str(known / "0.tar"), *(f"{pile}/part-00{part}.tar" for part in (0, 1))]
    names = [f"{tars[0]}/a1.png,a", *(f"{tar}/x/{10 * part}.png," for part, tar in enumerate(tars[1:]))]
    (tmp_path / "all.csv").write_text("\n".join(names))
    monkeypatch.setattr(members, "_indices", {})
    split = from_folders(tmp_path / "all.csv", tmp_path / "all.csv", 1).split
    assert sorted(log.read_text().split()) == tars
    assert isinstance(split.labelled, StreamedImages)
    assert isinstance(split.unlabelled, StreamedImages)
    sent = pickle.dumps(split.labelled.joined(split.unlabelled))
    log.unlink()
    monkeypatch.setattr(members, "_indices", {})
    received = pickle.loads(sent)  # by another process
    for _ in range(2):
        (taken,) = received.take_each([torch.tensor([0, 2, 1])])
        assert taken[:, 0, 0, 0].tolist() == [1, 110, 100]
    assert sorted(log.read_text().split()) == tars
    log.unlink()
    monkeypatch.setattr(members, "_indices", {})
    assert len(load_pile(tmp_path / "all.csv", 8, strict=False)[0]) == 3
    assert sorted(log.read_text().split()) == sorted(members._indices) == tars


def test_a_tar_file_is_indexed_again_only_if_it_has_changed(
    known: Path, pile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = unlabelled_files(pile)
    labelled_files(known)
    with monkeypatch.context() as patch:
        patch.setattr("newfound.data.members.tarfile.open", None)
        assert usual_side(Source(labelled=str(known), unlabelled=str(pile))) == 8
        assert unlabelled_files(pile) == names
        assert len(from_folders(known, pile, 2).split.unlabelled) == 8
    write_tar(pile / "part-001.tar", {"1.png": picture(1)})
    assert unlabelled_files(pile)[4:] == [(f"{pile}/part-001.tar/1.png", "")]


def test_a_dataset_is_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(members, "dataset", loaded.append)
    members.prepare([f"datasets:some/set:train/{row}" for row in range(3)])
    assert loaded == ["datasets:some/set:train"]


def test_a_folder_of_images_may_hold_a_tar_file(tmp_path: Path, known: Path, pile: Path) -> None:
    (pile / "more").mkdir()
    (pile / "more" / "1.png").write_bytes(picture(1))
    data = from_folders(known, pile, 1)
    assert data.split.unlabelled.names == [str(pile / "more" / "1.png")]
    assert data.skipped == (f"{pile}: 2 other files (2 .tar)",)


def test_images_without_a_label_join_the_pile_and_others_are_refused(tmp_path: Path, known: Path) -> None:
    write_tar(
        tmp_path / "some.tar", {"1.png": picture(1), "1.json": b'{"class": null}', "a/2.png": picture(2)}
    )
    assert [label for _, label in labelled_files(tmp_path / "some.tar")[0]] == ["", "a"]
    write_tar(tmp_path / "none.tar", {"1.png": picture(1)})
    with pytest.raises(DataError, match=r"none\.tar labels no image.*\.cls"):
        from_folders(tmp_path / "none.tar", known, 1)
    write_tar(tmp_path / "empty.tar", {"notes.txt": b"none"})
    with pytest.raises(DataError, match=r"empty\.tar contains no images"):
        unlabelled_files(tmp_path / "empty.tar")
    write_tar(tmp_path / "bad.tar", {"1.png": picture(1), "1.json": b"{"})
    with pytest.raises(DataError, match=r"bad\.tar/1\.json is not a file of JSON"):
        labelled_files(tmp_path / "bad.tar")
    (tmp_path / "no.tar").write_text("no tar file")
    with pytest.raises(DataError, match=r"no\.tar is not a tar file of images"):
        from_folders(known, tmp_path / "no.tar", 1)
    with pytest.raises(DataError, match=r"Cannot read .*gone\.tar: No such file"):
        from_folders(known, tmp_path / "gone.tar", 1)
    with pytest.raises(DataError, match=r"s3://bucket/store\.tar is not on this machine"):
        from_folders(known, "s3://bucket/store.tar", 1)


def test_training_on_remote_images_is_refused(tmp_path: Path, known: Path) -> None:
    (tmp_path / "list.csv").write_text("path\ns3://bucket/1.png")
    for place in ("s3://bucket/pictures/", "memory://pictures/*.png", tmp_path / "list.csv"):
        there = "s3://bucket/1.png" if place == tmp_path / "list.csv" else place
        with pytest.raises(DataError, match=rf"^{re.escape(str(there))} is not on this machine\. Embed its"):
            from_folders(known, place, 1)
    with pytest.raises(DataError, match=r"^s3://bucket/pictures/ is not on this machine"):
        usual_side(Source(labelled=str(known), unlabelled="s3://bucket/pictures/"))


def test_a_cut_tar_file_is_refused(tmp_path: Path, known: Path) -> None:
    write_tar(tmp_path / "cut.tar", {"1.png": picture(1), "2.png": bytes(5000)})
    content = (tmp_path / "cut.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(content[:3000])
    with pytest.raises(DataError, match=r"cut\.tar is not a tar file of images: unexpected end of data"):
        from_folders(known, tmp_path / "cut.tar", 1)


def test_names_of_datasets_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert located("datasets:beans:train/3") == "datasets:beans:train/3"
    assert located("s3://bucket/a.tar/3.png", "/here") == "s3://bucket/a.tar/3.png"
    (tmp_path / "mine").mkdir()
    assert located("datasets:mine:train") == f"datasets:{tmp_path}/mine:train"
    assert located("a/../b.png", "/here") == "/here/b.png"


def test_without_datasets_one_line_says_what_to_install(known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(UsageError, match=r"pip install 'newfound\[datasets\]'"):
        from_folders(known, "datasets:beans:train", 1)


@pytest.mark.extra
def test_a_data_set_of_hugging_face_datasets(tmp_path: Path, known: Path, pile: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    features = datasets.Features(
        {"label": datasets.ClassLabel(names=["cat", "ant"]), "photo": datasets.Image()}
    )
    rows = {"label": [1, 0, -1, None], "photo": [{"bytes": picture(row), "path": None} for row in range(4)]}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(str(tmp_path / "set"))
    name = f"datasets:{tmp_path}/set"
    data = from_folders(name, name, 1)
    assert data.class_names[:2] == ("ant", "cat")
    assert isinstance(data.split.unlabelled, ResidentImages)
    assert levels(data.split.unlabelled) == [2, 3]
    assert data.split.unlabelled.names == [f"{name}/2", f"{name}/3"]
    mixed = from_folders(known, name, 1)
    assert len(mixed.split.unlabelled) == 4
