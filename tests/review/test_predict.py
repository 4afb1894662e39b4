"""New images are sorted part by part as one call sorts them, on this machine and on a cluster."""

import csv
import logging
import os
import shutil
import signal
import tarfile
import time
from pathlib import Path
from threading import Thread

import pytest

import newfound
import tests.run.quarters
from newfound.core.errors import UsageError
from newfound.data.files import unlabelled_files
from newfound.data.folders import from_folders
from newfound.data.parquet import Answers, Manifest
from newfound.review import predict
from newfound.review.review import Review
from newfound.run.parts import Workers
from newfound.run.parts import in_parts as in_parts_of
from tests.cli.calls import refused, textures, works
from tests.tiny import QUICK

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
COLOURS = {"red": (150, 40, 40), "green": (40, 150, 40), "blue": (40, 40, 150)}
Rows = dict[str, tuple[str, str, str]]
"""The end of a path → class, kind and nearest class."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images, and runs/frozen and runs/trained on them."""
    folder = tmp_path_factory.mktemp("images")
    for seed, (name, colour) in enumerate(COLOURS.items()):
        textures(folder / "known" / name, colour, 8, seed)
    textures(folder / "pile" / "a", (150, 150, 40), 8, 10)
    textures(folder / "pile" / "b", (40, 150, 150), 8, 11)
    for seed, name in enumerate("xyz", start=20):
        textures(folder / "new" / name, ((150, 150, 40), (40, 150, 150), (150, 40, 40))[seed - 20], 8, seed)
        with tarfile.open(folder / f"new-{seed - 20}.tar", "w") as tar:
            for path in sorted((folder / "new" / name).iterdir()):
                tar.add(path, f"{name}/{path.name}")
    data = from_folders(folder / "known", folder / "pile", 2)
    newfound.discover("centroids", data, folder / "runs/frozen", verbose=False, encoder="quarters")
    newfound.discover("iic", data, folder / "runs/trained", verbose=False, encoder="small", **QUICK)
    return folder


def in_parts(out: Path) -> Rows:
    """What is in the files; each image once."""
    import pyarrow.parquet

    rows = [
        row for path in sorted(out.glob("*.parquet")) for row in pyarrow.parquet.read_table(path).to_pylist()
    ]
    found = {_end(row["image"]): (row["class"], row["kind"], row["nearest"]) for row in rows}
    assert len(found) == len(rows)
    return found


def at_once(run: Path, images: Path, out: Path) -> Rows:
    works("predict", run, images, "--out", out)
    with out.open(newline="") as file:
        return {
            _end(row["image"]): (row["class"], row["kind"], row["nearest"]) for row in csv.DictReader(file)
        }


def _end(path: str) -> str:
    return "/".join(Path(path).parts[-2:])


@pytest.mark.parametrize("run", ["frozen", "trained"])
def test_parts_are_sorted_as_one_call_sorts_them(
    run: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("webdataset", reason="webdataset is not installed")
    folder, expected = (
        place / "runs" / run,
        at_once(place / "runs" / run, place / "new", tmp_path / "all.csv"),
    )
    assert len(expected) == 24
    monkeypatch.setattr("newfound.data.archives.BLOCK", 5)
    monkeypatch.setattr("newfound.run.trained.CHUNK", 3)
    monkeypatch.setattr("newfound.run.parts.FEW", 5)
    monkeypatch.setattr("newfound.run.parts.ROWS", 10)
    out = works("predict", folder, place / "new-{0..1}.tar", "--out", tmp_path / "tars")
    assert f"{tmp_path / 'tars'}: 16 images sorted, 0 before" in out
    assert "8 images sorted, 2 before" in works(
        "predict", folder, place / "new-{0..2}.tar", "--out", tmp_path / "tars"
    )
    assert in_parts(tmp_path / "tars") == expected
    report = newfound.predict_parts(folder, place / "new" / "x", tmp_path / "files", verbose=False)
    assert (report.images, report.before) == (8, 0)
    report = newfound.predict_parts(folder, place / "new", tmp_path / "files", verbose=False)
    assert (report.images, report.before) == (16, 8)
    assert in_parts(tmp_path / "files") == expected
    listed = {os.path.realpath(path): name for path, name in unlabelled_files(tmp_path / "files")}
    assert {_end(path): name for path, name in listed.items()} == {
        end: row[0] for end, row in expected.items()
    }
    assert all(map(os.path.isfile, listed))
    assert at_once(folder, place / "new-1.tar", tmp_path / "one.csv").items() <= expected.items()


def test_embeddings_are_sorted_by_files(place: Path, tmp_path: Path) -> None:
    newfound.embed(place / "new" / "x", "quarters", tmp_path / "feats", verbose=False)
    newfound.embed(place / "new", "quarters", tmp_path / "feats", verbose=False)
    expected = at_once(place / "runs/frozen", place / "new", tmp_path / "all.csv")
    report = newfound.predict_parts(
        place / "runs/frozen", tmp_path / "feats", tmp_path / "out", verbose=False
    )
    assert (report.images, report.before) == (24, 0)
    assert in_parts(tmp_path / "out") == expected
    assert len([*(tmp_path / "out").glob("*.parquet")]) == 2
    report = newfound.predict_parts(
        place / "runs/frozen", tmp_path / "feats", tmp_path / "out", verbose=False
    )
    assert (report.images, report.before) == (0, 2)


def test_what_it_will_take_is_said_beforehand_and_refused_where_it_does_not_fit(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    newfound.embed(place / "new", "quarters", tmp_path / "feats", verbose=False)
    monkeypatch.setattr("newfound.run.parts.free_disk", lambda place: 2**33)
    run = place / "runs/frozen"
    newfound.predict_parts(run, tmp_path / "feats", tmp_path / "a", verbose=False)
    newfound.predict_parts(run, place / "new", tmp_path / "b", verbose=False)
    assert caplog.messages.count("24 images: up to 6 KiB on disk, 8.0 GiB free") == 2
    caplog.clear()
    for name in ("MANY", "ROWS", "FEW"):
        monkeypatch.setattr(f"newfound.run.parts.{name}", 8)
    monkeypatch.setattr("newfound.data.decode.PROGRESS_SECONDS", 0)
    for each in ("frozen", "trained"):
        newfound.predict_parts(place / "runs" / each, place / "new", tmp_path / each, verbose=False)
    said = "24 images: up to 14 KiB on disk, 8.0 GiB free, and about 0.6 GiB of memory, "
    assert sum(line.startswith(said) for line in caplog.messages) == 2
    sorting = [line.split(", ")[0] for line in caplog.messages if line.startswith("Sorting")]
    assert sorting == 2 * ["Sorting images 8/24", "Sorting images 16/24"]
    monkeypatch.setattr("newfound.run.parts.free_disk", lambda place: 1000)
    refused(2, ("predict", run, place / "new", "--out", tmp_path / "c"), "Not enough disk", "another output")


def test_object_stores_are_read_and_written(place: Path, tmp_path: Path) -> None:
    """By fsspec, whose store in memory stands for one."""
    import fsspec

    store, run = fsspec.filesystem("memory"), place / "runs/frozen"
    store.put(str(place / "new-0.tar"), "/pictures/new-0.tar")
    expected = at_once(run, place / "new" / "x", tmp_path / "all.csv")
    works("predict", run, "memory://pictures/new-0.tar", "--out", "memory://answers")
    (part,) = Manifest.model_validate_json(store.cat("/answers/manifest.json")).files
    store.get(f"/answers/{part}", str(tmp_path / "here" / part))
    assert in_parts(tmp_path / "here") == expected
    newfound.embed("memory://pictures/new-0.tar", "quarters", "memory://feats", verbose=False)
    newfound.predict_parts(run, "memory://feats", tmp_path / "out", verbose=False)
    assert in_parts(tmp_path / "out") == expected


@pytest.mark.parametrize("run", ["frozen", "trained"])
def test_remote_images_are_sorted_like_files(run: str, place: Path, tmp_path: Path) -> None:
    """Also a copy of an image of the run, which gets its class."""
    folder, store = place / "runs" / run, tmp_path / "store"
    shutil.copytree(place / "new", store)
    shutil.copy(next((place / "known" / "red").iterdir()), store / "x" / "copy.png")
    expected = at_once(folder, store, tmp_path / "all.csv")
    assert expected["x/copy.png"][0] == "red"
    out = works("predict", folder, f"local://{store}", "--out", tmp_path / "out")
    assert f"{tmp_path / 'out'}: 25 images sorted, 0 before" in out
    assert in_parts(tmp_path / "out") == expected
    report = newfound.predict_parts(folder, f"local://{store}/*/*.png", tmp_path / "out", verbose=False)
    assert (report.images, report.before) == (0, 25)
    (tmp_path / "list.txt").write_text("\n".join(f"local://{store}/{end}" for end in expected))
    assert at_once(folder, tmp_path / "list.txt", tmp_path / "list.csv") == expected
    found = newfound.predict(folder, f"local://{store}")
    assert dict(zip(map(_end, found.images), found.classes, strict=True)) == {
        end: row[0] for end, row in expected.items()
    }


def test_a_stopped_call_loses_a_part_at_most(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("webdataset", reason="webdataset is not installed")
    call = place / "runs/frozen", place / "new-{0..2}.tar", tmp_path / "out"
    whole, done = Answers.put, list[str]()

    def interrupted(self: Answers, name: str, columns: dict[str, list[object]]) -> str:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(name)
        return whole(self, name, columns)

    with monkeypatch.context() as patch:
        patch.setattr(Answers, "put", interrupted)
        with pytest.raises(KeyboardInterrupt):
            newfound.predict_parts(*call, verbose=False)
    report = newfound.predict_parts(*call, verbose=False)
    assert (report.images, report.before) == (8, 2)
    assert len(in_parts(tmp_path / "out")) == 24


def test_what_cannot_be_read_is_left_out(place: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_text("no image")
    with tarfile.open(tmp_path / "broken.tar", "w") as tar:
        tar.add(tmp_path / "broken.png", "broken.png")
    for run in ("frozen", "trained"):
        out = works("predict", place / "runs" / run, tmp_path / "broken.tar", "--out", tmp_path / run)
        assert "broken.png: not an image" in out
        assert "0 images sorted" in out
    call = ("predict", place / "runs/trained", tmp_path / "broken.tar", "--out", tmp_path / "no", "--strict")
    refused(1, call, "Cannot read", "broken.png")


def test_other_answers_in_the_folder_are_refused(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    newfound.predict_parts(place / "runs/frozen", place / "new" / "x", out, verbose=False)
    with pytest.raises(UsageError, match="holds Parquet files that are not predictions of this run"):
        newfound.predict_parts(place / "runs/trained", place / "new", out, verbose=False)
    with pytest.raises(UsageError, match="holds Parquet files that are not embeddings"):
        newfound.embed(place / "new", "quarters", out, verbose=False)
    with pytest.raises(UsageError, match="lies inside the image folder"):
        newfound.predict_parts(place / "runs/frozen", place / "new", place / "new" / "out", verbose=False)


def test_a_worker_needs_only_the_files_of_the_run(place: Path, tmp_path: Path) -> None:
    run = place / "runs/frozen"
    files = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    answers = Answers(tmp_path / "out", predict.answered(Review.open(run)))
    worker = predict.Worker(files, answers, strict=False)
    parts = in_parts_of([str(path) for path in (place / "new" / "x").iterdir()], Workers())
    assert list(worker(parts)) == [(8, [])]


@pytest.mark.extra
def test_every_image_is_sorted_once_though_a_worker_is_killed(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    who, out = tmp_path / "who", tmp_path / "out"
    who.mkdir()
    monkeypatch.setattr("newfound.run.parts.FEW", 3)
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

    thread = Thread(target=kill_one, daemon=True)
    thread.start()
    try:
        report = newfound.predict_parts(
            place / "runs/frozen", place / "new", out, engine="ray", workers=2, verbose=False
        )
    finally:
        ray.shutdown()
    thread.join(10)
    assert killed
    assert report.images == 24
    assert in_parts(out) == at_once(place / "runs/frozen", place / "new", tmp_path / "all.csv")
