"""Images in tar files, datasets and on a cluster get the vectors that files on this machine get."""

import gc
import io
import json
import logging
import os
import re
import shutil
import signal
import tarfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import fsspec
import numpy as np
import pytest
import torch
from fsspec.implementations.memory import MemoryFile
from PIL import Image

import newfound
import tests.run.quarters
from newfound.core.encoder import Preprocessing
from newfound.core.errors import DataError, NewfoundError, UsageError
from newfound.core.files import in_units
from newfound.data import archives, parquet
from newfound.data.archives import ROWS, Rows, Tar, read_ahead
from newfound.data.parquet import Made, Manifest, Shards
from newfound.data.vectors import from_embedding_files, read_embeddings
from newfound.engine.embedding import Embedder
from newfound.nn.encoders import build_encoder
from newfound.run.embed import Worker, embed
from newfound.run.frozen import version_of
from newfound.run.parts import (
    COPIES,
    PROGRAM,
    ClusterWorker,
    Workers,
    announce,
    check_needs,
    in_parts,
    new_files,
)

pytest.importorskip("pyarrow")
NUMBER = 60
RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder, random = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    for row in range(NUMBER):
        colour = random.integers(0, 255, (12, 16, 3), np.uint8)
        Image.fromarray(colour).save(folder / f"{row:03}.png")
    return sorted(folder.iterdir())


def vectors(folder: Path) -> dict[str, list[float]]:
    """The last part of the name → the vector; each name once."""
    found = read_embeddings(folder).vectors
    assert len(set(found.names)) == len(found.names)
    values = found.fetch(torch.arange(len(found)))[:, 0].tolist()
    return {Path(name).stem: value for name, value in zip(found.names, values, strict=True)}


def of_files(files: list[Path], out: Path) -> dict[str, list[float]]:
    newfound.embed(files[0].parent, "quarters", out, verbose=False)
    return vectors(out)


def test_tar_files_are_embedded_part_by_part(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("webdataset")
    for place in range(3):
        with tarfile.open(tmp_path / f"part-{place}.tar", "w") as tar:
            for path in files[20 * place : 20 * (place + 1)]:
                tar.add(path, path.name)
                about = tarfile.TarInfo(f"{path.stem}.json")
                tar.addfile(about, io.BytesIO())
    monkeypatch.setattr("newfound.data.archives.BLOCK", 8)
    report = newfound.embed(tmp_path / "part-{0..1}.tar", "quarters", tmp_path / "out", verbose=False)
    assert (report.images, report.before) == (40, 0)
    report = newfound.embed(tmp_path, "quarters", tmp_path / "out", verbose=False)
    assert (report.images, report.before) == (20, 2)
    assert vectors(tmp_path / "out") == of_files(files, tmp_path / "plain")
    assert read_embeddings(tmp_path / "out").vectors.names[0].startswith(str(tmp_path / "part-"))


def test_a_damaged_tar_file_is_left_out_as_a_whole(files: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("webdataset")
    (tmp_path / "tars" / "more").mkdir(parents=True)
    for place in (0, 1):
        with tarfile.open(tmp_path / "tars" / "more" / f"part-{place}.tar", "w") as tar:
            for path in files[20 * place : 20 * (place + 1)]:
                tar.add(path, path.name)
    whole = (tmp_path / "tars" / "more" / "part-1.tar").read_bytes()
    (tmp_path / "tars" / "more" / "part-1.tar").write_bytes(whole[: whole.index(b"PNG") + 100])
    (tmp_path / "tars" / "part-2.tar").write_text("no tar file")
    out = tmp_path / "out"
    report = newfound.embed(tmp_path / "tars", "quarters", out, verbose=False)
    assert report.images == 20
    assert [line.removeprefix(f"{tmp_path}/tars/") for line in report.left_out] == [
        "more/part-1.tar is not a tar file, or it is cut short.",
        "part-2.tar is not a tar file, or it is cut short.",
    ]
    with pytest.raises(DataError, match=r"part-1\.tar is not a tar file, or it is cut short"):
        newfound.embed(tmp_path / "tars", "quarters", out, strict=True, verbose=False)
    (tmp_path / "tars" / "more" / "part-1.tar").write_bytes(whole)
    report = newfound.embed(tmp_path / "tars", "quarters", out, verbose=False)
    assert (report.images, report.before, len(report.left_out)) == (20, 1, 1)


def test_only_so_many_bytes_of_a_tar_file_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("webdataset")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name, size in (("a.png", 30), ("b.png", 80), ("c.png", 20), ("d.png", 81), ("._d.png", 1)):
            about = tarfile.TarInfo(name)
            about.size = size
            tar.addfile(about, io.BytesIO(bytes(size)))
    monkeypatch.setattr("newfound.data.archives.BLOCK_BYTES", 100)
    parts = read_ahead([Tar(str(tmp_path / "a.tar"))])
    assert [[os.path.basename(name) for name in block.names] for block in next(parts)] == [
        ["a.png"],
        ["b.png", "c.png"],
        ["d.png"],
    ]


class Content(bytearray):
    """What is read of an image; unlike bytes, the garbage collector knows of it."""


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is read of tar files of three images; `empty` has none, and `b` is cut short."""
    names: list[str] = []

    def images(tar: Tar) -> Iterator[tuple[str, Content]]:
        for row in range(0 if tar.name == "empty" else 3):
            names.append(f"{tar.name}{row}")
            yield names[-1], Content()
        if tar.name == "b":
            raise DataError("cut short")

    monkeypatch.setattr("newfound.data.archives.BLOCK", 2)
    monkeypatch.setattr(Tar, "images", images)
    return names


def test_one_block_is_read_ahead_even_of_the_next_part(read: list[str]) -> None:
    def wait(number: int) -> None:
        end = time.monotonic() + 10
        while len(read) < number and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.05)
        assert len(read) == number

    parts = read_ahead([Tar(name) for name in ("a", "empty", "b", "c")])
    part = next(parts)
    assert next(part).names == ["a0", "a1"]
    wait(3)
    assert next(part).names == ["a2"]
    assert not list(part) + list(next(parts))
    wait(6)  # all of b, whose first block is not in use yet
    part = next(parts)
    assert next(part).names == ["b0", "b1"]
    with pytest.raises(DataError, match="cut short"):
        next(part)
    assert [block.names for block in next(parts)] == [["c0", "c1"], ["c2"]]
    assert not list(parts)


@pytest.mark.usefixtures("read")
def test_a_part_gets_no_blocks_of_one_that_was_left_early() -> None:
    parts = read_ahead([Tar(name) for name in ("a", "b", "c")])
    for name, part in zip("abc", parts, strict=True):
        assert next(part).names == [f"{name}0", f"{name}1"]


@pytest.mark.usefixtures("read")
def test_nothing_of_a_damaged_part_stays_in_memory() -> None:
    gc.disable()
    try:
        for part in read_ahead([Tar("b"), Tar("b")]):
            with suppress(DataError):
                deque(part, 0)
        assert not any(type(each) is Content for each in gc.get_objects())
    finally:
        gc.enable()


@pytest.mark.usefixtures("read")
def test_the_thread_that_reads_ends_with_an_error(tmp_path: Path) -> None:
    shards = Shards(tmp_path, Made(encoder=version_of("quarters")[1], views=1))
    with pytest.raises(DataError, match="a0"):
        list(Worker(shards, strict=True)([Tar("a"), Tar("c")]))
    threads = [each for each in threading.enumerate() if each.name.startswith("blocks")]
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)


def test_a_tar_file_names_nothing_outside_itself_and_pipes_are_not_read(
    files: list[Path], tmp_path: Path
) -> None:
    pytest.importorskip("webdataset")
    (tmp_path / "tars").mkdir()
    with tarfile.open(tmp_path / "tars" / "a.tar", "w") as tar:
        for place, name in enumerate(("../../secret.png", "/etc/secret.png", "./a/../b.png")):
            about = tarfile.TarInfo(name)
            about.size = files[place].stat().st_size
            tar.addfile(about, files[place].open("rb"))
    newfound.embed(tmp_path / "tars", "quarters", tmp_path / "out", verbose=False)
    names = {os.path.relpath(name, tmp_path) for name in read_embeddings(tmp_path / "out").vectors.names}
    assert names == {f"tars/a.tar/{each}.png" for each in ("secret", "etc/secret", "b")}
    os.mkfifo(tmp_path / "tars" / "pipe.tar")
    with pytest.raises(DataError, match=r"pipe\.tar: Not a regular file"):
        newfound.embed(tmp_path / "tars", "quarters", tmp_path / "out", strict=True, verbose=False)
    os.mkfifo(tmp_path / "out" / "pipe.parquet")
    with pytest.raises(NewfoundError, match=r"Not a regular file: .*pipe\.parquet"):
        newfound.embed(files[0].parent, "quarters", tmp_path / "out", verbose=False)


def test_object_stores_are_read_and_written(files: list[Path], tmp_path: Path) -> None:
    """By fsspec, whose store in memory stands for one."""
    pytest.importorskip("webdataset")
    with fsspec.open("memory://photos/a.tar", "wb") as stored, tarfile.open(fileobj=stored, mode="w") as tar:
        for path in files:
            tar.add(path, path.name)
    report = embed("memory://photos/a.tar", "quarters", "memory://vectors")
    assert (report.images, embed("memory://photos/a.tar", "quarters", "memory://vectors").images) == (60, 0)
    (part,) = Manifest.model_validate_json(fsspec.filesystem("memory").cat("/vectors/manifest.json")).files
    assert fsspec.filesystem("memory").exists(f"/vectors/{part}")
    fsspec.filesystem("memory").get("/vectors", str(tmp_path / "here"), recursive=True)
    assert vectors(tmp_path / "here") == of_files(files, tmp_path / "plain")
    assert read_embeddings(tmp_path / "here").vectors.names[0] == "memory://photos/a.tar/000.png"
    known = [f"memory://photos/a.tar/{row:03}.png,{'ab'[row % 2]}" for row in range(20)]
    (tmp_path / "known.csv").write_text("\n".join(["path,label", *known]))
    data = from_embedding_files("memory://vectors", tmp_path / "known.csv", 2)
    assert (len(data.split.labelled), len(data.split.unlabelled)) == (20, 40)


def test_files_of_a_finished_call_are_not_opened_again(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, made_of = list[str](), parquet._made

    def logged(path: str) -> object:
        opened.append(path)
        return made_of(path)

    url, out = f"local://{files[0].parent}", "memory://resumed"
    embed(url, "quarters", out)
    made = Shards(out, Made(encoder=version_of("quarters")[1], views=1))
    (listed,) = made.files
    late = made.publish("late.parquet", ["a.png"], np.ones((1, 1, 12), np.float16), ["a"])
    monkeypatch.setattr(parquet, "_made", logged)
    assert Shards(out, made.made).files == [listed, late]
    assert opened == [late]
    other = made.made.model_copy(update={"views": 2})
    with pytest.raises(UsageError, match="holds embeddings with views=1"):
        Shards(out, other)
    made.finish()
    with pytest.raises(UsageError, match="holds embeddings with views=1"):
        Shards(out, other)
    assert opened == [late, late]


def test_a_manifest_is_not_believed_once_its_files_are_gone(tmp_path: Path) -> None:
    out, store = "memory://replaced", fsspec.filesystem("memory")
    one = Made(encoder=version_of("quarters")[1], views=1)
    two = one.model_copy(update={"views": 2})
    for names in (["a.parquet"], ["a.parquet", "b.parquet"]):
        first = Shards(out, one)
        for name in names:
            first.publish(name, ["a.png"], np.ones((1, 1, 12), np.float16), ["a"])
        first.finish()
        store.rm([f"/replaced/{name}" for name in names])
        second = Shards(out, two)
        second.publish("a.parquet", ["a.png"], np.ones((1, 2, 12), np.float16), ["a"])
        assert len(Shards(out, two).files) == 1
        with pytest.raises(UsageError, match="holds embeddings with views=2"):
            Shards(out, one)
        store.rm("/replaced/a.parquet")
    first.publish("a.parquet", ["a.png"], np.ones((1, 1, 12), np.float16), ["a"])
    first.finish()
    store.get("/replaced/manifest.json", str(tmp_path / "manifest.json"))
    Shards(tmp_path, two).publish("a.parquet", ["a.png"], np.ones((1, 2, 12), np.float16), ["a"])
    assert len(Shards(tmp_path, two).files) == 1


def test_nothing_is_left_of_a_part_that_could_not_be_put(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a store that shows a file as soon as it is opened, and loses the connection halfway."""
    made_with = MemoryFile.__init__

    def write_half(file: MemoryFile, content: bytes) -> int:
        io.BytesIO.write(file, content[: len(content) // 2])
        raise OSError("connection lost")

    def open_with_half(file: MemoryFile, fs: object, path: str, data: bytes | None = None) -> None:
        made_with(file, fs, path)
        if data:
            write_half(file, data)

    url = f"local://{files[0].parent}"
    with monkeypatch.context() as failing:
        failing.setattr(MemoryFile, "write", write_half)
        failing.setattr(MemoryFile, "__init__", open_with_half)
        with pytest.raises(OSError, match="connection lost"):
            embed(url, "quarters", "memory://fails")
    assert embed(url, "quarters", "memory://fails").images == NUMBER


def test_remote_images_are_embedded_like_files(files: list[Path], tmp_path: Path) -> None:
    """A folder, a pattern and a list; a folder of this machine under another name stands for the store."""
    store = tmp_path / "store"
    for place, path in enumerate(files):
        (store / "ab"[place % 2]).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, store / "ab"[place % 2])
    (store / ".hidden").mkdir()
    shutil.copy(files[0], store / ".hidden")
    (store / "notes.txt").write_text("none")
    (store / "b" / "broken.png").write_text("no image")
    url, out = f"local://{store}", tmp_path / "out"
    report = embed(f"{url}/a/*.png", "quarters", out)
    assert (report.images, report.before, report.left_out) == (30, 0, ())
    report = embed(f"{url}/", "quarters", out)
    assert (report.images, report.before) == (30, 30)
    assert report.left_out == (
        f"{url}/: 1 other file (1 .txt)",
        f"{url}/b/broken.png: not an image that Pillow can read",
    )
    assert vectors(out) == (plain := of_files(files, tmp_path / "plain"))
    assert read_embeddings(out).vectors.names[0] == f"{url}/a/000.png"

    (store / "list.csv").write_text(f"{url}/a/000.png\nb/001.png\n{url}/b/gone.png")
    assert [embed(place, "quarters", out).images for place in (f"{url}/list.csv", store / "list.csv")] == [
        0,
        1,
    ]
    report = embed(f"{url}/list.csv", "quarters", tmp_path / "listed")
    assert vectors(tmp_path / "listed") == {name: plain[name] for name in ("000", "001")}
    assert report.left_out == (f"{url}/b/gone.png: No such file or directory",)
    with pytest.raises(DataError, match=rf"^{url}/none contains no images"):
        embed(f"{url}/none", "quarters", out)
    with pytest.raises(DataError, match=r"^Cannot read s3://bucket/pictures: .*s3fs"):
        embed("s3://bucket/pictures", "quarters", out)


def test_remote_images_are_embedded_by_parts(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By fork and in the workers of a cluster, too."""
    monkeypatch.setattr("newfound.data.workers.FEWEST", 0)
    monkeypatch.setattr("newfound.run.parts.ROWS", 25)
    monkeypatch.setattr("newfound.run.parts.FEW", 25)
    url, out = f"local://{files[0].parent}", tmp_path / "out"
    assert embed(url, "quarters", f"local://{out}").images == NUMBER
    assert len(list(out.glob("*.parquet"))) == 3
    assert vectors(out) == (plain := of_files(files, tmp_path / "plain"))

    shards = Shards(tmp_path / "cluster", Made(encoder=version_of("quarters")[1], views=1))
    parts = in_parts(new_files(url, shards)[0], Workers("ray"))
    done = ClusterWorker(parts, partial(Worker, shards, False, None))({"id": range(len(parts))})
    assert done == {"images": [25, 25, 10], "failed": ["", "", ""]}
    assert vectors(tmp_path / "cluster") == plain


def test_datasets_are_embedded_by_rows(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"photo": [str(path) for path in files]})
    rows = rows.cast_column("photo", datasets.Image())
    rows.save_to_disk(str(tmp_path / "set"))
    monkeypatch.setattr(archives, "ROWS", 25)
    report = embed(f"datasets:{tmp_path / 'set'}", "quarters", tmp_path / "out")
    assert report.images == NUMBER
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 3
    found, plain = vectors(tmp_path / "out"), of_files(files, tmp_path / "plain")
    assert found == {str(int(name)): vector for name, vector in plain.items()}
    rows = datasets.Dataset.from_dict({"photo": [None, str(files[0])]}).cast_column("photo", datasets.Image())
    rows.save_to_disk(str(tmp_path / "gap"))
    report = embed(f"datasets:{tmp_path / 'gap'}", "quarters", tmp_path / "gap-out")
    assert (report.images, len(report.left_out)) == (1, 1)


def test_what_it_will_take_is_said_beforehand_and_refused_where_it_does_not_fit(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("webdataset")
    caplog.set_level(logging.INFO)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(files[0], files[0].name)
    monkeypatch.setattr("newfound.run.parts.free_disk", lambda place: 2**33)
    of_files(files, tmp_path / "plain")
    embed(tmp_path / "a.tar", "quarters", tmp_path / "tars")
    embed(tmp_path / "a.tar", "quarters", tmp_path / "tars")
    assert [line for line in caplog.messages if "free" in line] == [
        "60 images: up to 11 KiB on disk, 8.0 GiB free",
        "about 1 image: up to 4 KiB on disk, 8.0 GiB free",
    ]
    caplog.clear()
    monkeypatch.setattr("newfound.run.parts.free_memory", lambda: 2**32)
    with monkeypatch.context() as patch:
        for name in ("MANY", "ROWS", "FEW"):
            patch.setattr(f"newfound.run.parts.{name}", 30)
        patch.setattr("newfound.data.decode.PROGRESS_SECONDS", 0)
        embed(files[0].parent, "quarters", f"local://{tmp_path / 'parts'}")
    assert [re.sub(r"\d+ s", "1 s", line) for line in caplog.messages] == [
        "60 images: up to 15 KiB, and about 0.6 GiB of memory, 4.0 GiB free",
        "60 images to embed with quarters@one, 0 embedded before",
        "Embedding images 30/60, 1 s left",
        "part 1/2, 30 images, 1 seconds left",
        "part 2/2, 60 images, 1 seconds left",
    ]
    with monkeypatch.context() as patch:
        patch.setattr("newfound.run.parts.free_memory", lambda: 1000)
        patch.setattr("newfound.run.parts.used_memory", lambda: PROGRAM)
        with pytest.raises(
            UsageError, match=r"Not enough memory: about 35 KiB are needed, and 1 KiB are free"
        ):
            embed(files[0].parent, "quarters", tmp_path / "full")
    monkeypatch.setattr("newfound.run.parts.free_disk", lambda place: 60 * 124 + 4095)
    with pytest.raises(UsageError, match=r"Not enough disk space for .*full: about 11 KiB .*another folder"):
        embed(files[0].parent, "quarters", tmp_path / "full")
    assert not list((tmp_path / "full").glob("*.parquet"))


def test_the_memory_that_is_said_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    record = json.loads((RESULTS / "bench" / "h200-embed.json").read_text())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("newfound.run.parts.free_memory", lambda: 2**33)
    monkeypatch.setattr(
        "newfound.engine.embedding.num_workers", lambda *_: record["embed"]["lite0"]["workers"]
    )
    embedder = Embedder(build_encoder("quarters"), torch.device("cpu"))
    embedder.look = Preprocessing(224, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    embedder.batch = record["embed"]["lite0"]["batch_size"]
    largest = record["memory"][-1]
    vectors = COPIES * ROWS * 1280 * 2
    said = check_needs(
        largest["images"], 0, vectors + embedder.memory(largest["images"]), "s3://bucket/feats"
    )
    assert said.endswith(f"about {in_units(largest['peak_mib'] * 2**20)} of memory, 8.0 GiB free")


def test_files_of_a_dataset_are_in_memory_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("newfound.run.parts.free_memory", lambda: 2**32)
    assert announce([Rows("datasets:beans", 0, 2000)], "s3://bucket/feats", 10, 10, 0) == 2000
    assert caplog.messages[0].endswith("and about 0.7 GiB of memory, 4.0 GiB free")
    announce([Rows("datasets:beans", 0, 9000)], "s3://bucket/feats", 10, 10, 0)
    assert caplog.messages[1].endswith("and about 1.1 GiB of memory, 4.0 GiB free")


def test_blocks_of_two_tar_files_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.tar", "b.tar"):
        with tarfile.open(tmp_path / name, "w") as tar:
            about = tarfile.TarInfo("a.png")
            about.size = 2**20
            tar.addfile(about, io.BytesIO(bytes(about.size)))
    parts = [Tar(str(tmp_path / "a.tar")), Tar(str(tmp_path / "b.tar"))]
    monkeypatch.setattr("newfound.run.parts.used_memory", lambda: 2**40)
    monkeypatch.setattr("newfound.run.parts.free_memory", lambda: 3 * 2**19)
    assert announce(parts[:1], "s3://bucket/feats", 1, 1, 0) == 1
    with pytest.raises(UsageError, match=r"Not enough memory: about 2 MiB"):
        announce(parts, "s3://bucket/feats", 1, 1, 0)


def test_what_the_program_has_not_yet_taken_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newfound.run.parts.free_memory", lambda: 2**29)
    monkeypatch.setattr("newfound.run.parts.used_memory", lambda: PROGRAM)
    check_needs(1, 0, 2**28, "s3://bucket/feats")
    monkeypatch.setattr("newfound.run.parts.used_memory", lambda: PROGRAM - 2**28 - 1)
    with pytest.raises(UsageError, match="Not enough memory"):
        check_needs(1, 0, 2**28, "s3://bucket/feats")
    monkeypatch.setattr("newfound.run.parts.used_memory", lambda: PROGRAM)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(UsageError, match=r"Not enough memory: about 1\.0 GiB"):
        check_needs(1, 0, 2**28, "s3://bucket/feats")


def test_the_images_in_tar_files_are_estimated(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("webdataset")
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("newfound.run.parts.MEMBERS", 10)
    monkeypatch.setattr("newfound.run.parts.TARS", 2)
    monkeypatch.setattr("newfound.run.parts.MANY", 30)
    monkeypatch.setattr("newfound.run.parts.free_disk", lambda place: 2**33)
    monkeypatch.setattr("newfound.run.parts.free_memory", lambda: 2**32)
    monkeypatch.setattr("newfound.data.decode.PROGRESS_SECONDS", 0)
    (tmp_path / "label.cls").write_text("cat")
    for part in range(3):
        with tarfile.open(tmp_path / f"{part}.tar", "w") as tar:
            for path in files:
                tar.add(path, path.name)
                tar.add(tmp_path / "label.cls", path.with_suffix(".cls").name)
    for place in (tmp_path, f"local://{tmp_path}/*.tar"):
        caplog.clear()
        assert embed(place, "quarters", tmp_path / "out" / str(len(str(place)))).images == 180
        said, number, progress = caplog.messages[1], *caplog.messages[2].split("/")
        found = re.fullmatch(
            r"about (\d+) images: up to 3\d KiB on disk, 8.0 GiB free, and about 0.6 GiB of memory, .*", said
        )
        assert found
        assert 180 <= int(found[1]) <= 200
        assert (number[:17], progress) == ("Embedding images ", f"{found[1]}, 0 s left")
    (tmp_path / "0.tar").write_bytes(b"damaged")
    caplog.clear()
    assert embed(tmp_path, "quarters", tmp_path / "out" / "damaged").images == 120
    assert caplog.messages[1] == "3 parts: up to 124 bytes per image on disk, 8.0 GiB free"
    (tmp_path / "0.tar").unlink()
    monkeypatch.setattr("newfound.run.parts.free_disk", lambda place: 2**13)
    with pytest.raises(UsageError, match=r"Not enough disk space for .*full: about 2\d KiB"):
        embed(tmp_path, "quarters", tmp_path / "out" / "full")


@pytest.mark.extra
def test_every_image_is_embedded_once_though_a_worker_is_killed(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    who, out = tmp_path / "who", tmp_path / "out"
    who.mkdir()
    monkeypatch.setattr("newfound.run.parts.FEW", 5)
    root = Path(__file__).parents[2]
    set_there = {
        "NEWFOUND_PLUGINS": tests.run.quarters.__name__,
        tests.run.quarters.WHO: str(who),
        "PYTHONPATH": f"{root}/src:{root}",
        "OMP_NUM_THREADS": "1",
    }
    ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": set_there}, log_to_driver=False)
    killed: list[int] = []

    def kill_one() -> None:
        while len([*who.iterdir()]) < 2 or not any(out.glob("*.parquet")):
            time.sleep(0.02)
        killed.append(int(next(who.iterdir()).name))
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill_one, daemon=True)
    thread.start()
    try:
        report = embed(files[0].parent, "quarters", out, workers=Workers("ray", number=2))
    finally:
        ray.shutdown()
    thread.join(10)
    assert killed
    assert report.images == NUMBER
    assert vectors(out) == of_files(files, tmp_path / "plain")
    assert len([*who.iterdir()]) >= 3  # another process took its place
