"""Vectors in place of images: data sets from arrays, their views, and the methods that run on them."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import newfound
from newfound.core.errors import DataError, NewfoundError, UsageError
from newfound.core.records import Views
from newfound.core.registry import method_entry, method_names, recipe_for
from newfound.core.settings import TrainConfig
from newfound.core.source import EncoderVersion, Source
from newfound.data import load, parquet
from newfound.data.augment import Augmenter, evaluation_view
from newfound.data.augment.recipes import Perturb
from newfound.data.loader import Loader
from newfound.data.parquet import Made, Shards
from newfound.data.vectors import Vectors, from_embeddings, joined_embeddings, read_embeddings, unit_vectors
from newfound.run.folder import Folder
from newfound.run.pile import Assignments
from newfound.run.preflight import preflight
from newfound.run.trained import Trained

CPU = torch.device("cpu")
D = 24
NEED_MAPS = ("dualrank", "kcl", "mcl")


def blobs(each: int = 40, views: int = 1) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Seven classes that are easy to tell apart: (n, V, D) and classes (n,)."""
    random = np.random.default_rng(0)
    classes = random.permutation(np.repeat(np.arange(7), each))
    means = 3 * random.normal(size=(7, D))
    return means[classes][:, None] + random.normal(size=(len(classes), views, D)), classes


def test_a_data_set_holds_the_directions_of_its_vectors() -> None:
    vectors, classes = blobs(views=2)
    labels = np.where(classes < 4, classes + 10, -1)
    names = [f"{row}.png" for row in range(len(labels))]
    data = from_embeddings(vectors, labels, 3, names=names)
    split = data.split
    assert isinstance(split.labelled, Vectors)
    assert data.class_names == ("10", "11", "12", "13", "novel-1", "novel-2", "novel-3")
    assert (split.look.kind, split.look.size, data.source and data.source.name) == ("vectors", D, "vectors")
    pile = np.flatnonzero(labels < 0)
    assert list(split.unlabelled.names) == [names[row] for row in pile]
    wanted = vectors[pile] / np.linalg.norm(vectors[pile], axis=-1, keepdims=True)
    found = split.unlabelled.fetch(torch.arange(len(pile))).float().numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    assert data.fingerprint() == from_embeddings(vectors, labels, 3).fingerprint()
    assert data.fingerprint() != from_embeddings(-vectors, labels, 3).fingerprint()


@pytest.mark.parametrize(
    "vectors",
    [np.zeros(3), np.zeros((2, 2, 2, 2)), np.array([["a", "b"]], object), np.full((2, 3), np.nan)],
)
def test_other_arrays_are_refused(vectors: NDArray[np.generic]) -> None:
    with pytest.raises(DataError, match="Embeddings must be"):
        from_embeddings(vectors, np.zeros(len(vectors), int), 1)


def test_names_must_be_one_per_vector() -> None:
    vectors, classes = blobs()
    with pytest.raises(DataError, match="names"):
        from_embeddings(vectors, np.where(classes < 4, classes, -1), 3, names=["one"])


def test_a_view_is_one_of_the_stored_ones() -> None:
    vectors = torch.nn.functional.normalize(torch.randn(500, 3, D), dim=-1)
    u = torch.rand(500, 1 + D)
    view = Perturb(D, strength=0.0, dropout=0.0)(vectors, u)
    for row in range(500):
        torch.testing.assert_close(view[row], vectors[row, int(u[row, 0] * 3)])


def test_noise_and_dropout_have_the_declared_distribution() -> None:
    size, n = 400, 500
    vector = torch.zeros(n, 1, size)
    vector[:, 0, 0] = 1.0
    u = torch.rand(n, 1 + size, generator=torch.Generator().manual_seed(0))
    u[:, 1] = 0.5  # the first feature is kept and gets no more than a little noise
    view = Perturb(size, strength=0.5, dropout=0.2)(vector, u)
    others = (view / view[:, :1])[:, 1:]  # relative to the first feature, which undoes the normalisation
    assert ((others == 0).float().mean() - 0.2).abs() < 0.01
    kept = others[others != 0]
    assert kept.std() == pytest.approx(0.5 / size**0.5, rel=0.05)
    assert kept.mean().abs() < 1e-3
    torch.testing.assert_close(view.norm(dim=-1), torch.ones(n))


def test_evaluation_sees_the_mean_of_the_views() -> None:
    vectors = torch.randn(5, 3, D).half()
    found = evaluation_view(vectors, D, "vectors", (0, 0, 0), (1, 1, 1))
    means = vectors.float().mean(1)
    torch.testing.assert_close(found, means / means.norm(dim=-1, keepdim=True))


def test_the_loader_gives_views_of_vectors() -> None:
    vectors, classes = blobs()
    split = from_embeddings(vectors, np.where(classes < 4, classes, -1), 3).split
    loader = Loader(
        split, Views(2, 1), TrainConfig(batch_size=32), uses="both", seed=0, stage="discover", device=CPU
    )
    first, again = (loader.batch(next(loader.draws(0))) for _ in range(2))
    assert [view.shape for view in first.views] == [(2, 32, D), (1, 32, D)]
    assert all(torch.equal(one, other) for one, other in zip(first.views, again.views, strict=True))
    assert not torch.equal(first.views[0][0], first.views[0][1])
    assert Augmenter("v2", "vectors", D, 2, 1, (0, 0, 0), (1, 1, 1)).noise == 1 + D


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in method_names() if "vectors" in method_entry(name).ours])
def test_a_method_with_settings_for_vectors_separates_what_is_easy_to_separate(
    name: str, tmp_path: Path
) -> None:
    vectors, classes = blobs()
    data = from_embeddings(vectors, np.where(classes < 4, classes, -1), 3, pile="novel")
    keys = recipe_for(name, "vectors").flat()
    quick = {
        key: value
        for key, value in {"hidden": 64, "batch_size": 128, "heads": 2, "small_crops": 0}.items()
        if key in keys
    }
    results = newfound.discover(name, data, tmp_path / "run", verbose=False, device="cpu", **quick)
    assert results.classes is not None
    found = Assignments.read(Folder(tmp_path / "run").assignments, results.classes).ids
    assert newfound.hungarian_accuracy(found, classes[classes >= 4]) > 0.9


@pytest.mark.parametrize("name", NEED_MAPS)
def test_methods_on_maps_say_that_vectors_have_none(name: str) -> None:
    vectors, classes = blobs()
    split = from_embeddings(vectors, np.where(classes < 4, classes, -1), 3).split
    with pytest.raises(UsageError, match=f"{name} needs feature maps"):
        preflight(recipe_for(name, "vectors"), split)


def test_an_encoder_of_images_does_not_take_vectors() -> None:
    vectors, classes = blobs()
    split = from_embeddings(vectors, np.where(classes < 4, classes, -1), 3).split
    with pytest.raises(UsageError, match="does not take vectors"):
        preflight(recipe_for("uno-v2", "vectors", {"encoder": "resnet18"}), split)


def written(folder: Path, form: str) -> Path:
    """The blobs in files of one form."""
    vectors, _ = blobs(each=4)
    rows, names = vectors[:, 0], [f"pictures/{row}.png" for row in range(len(vectors))]
    if form == "npy":
        np.save(folder / "x.npy", rows)
        (folder / "x.txt").write_text("\n".join(names))
        return folder / "x.npy"
    if form == "csv":
        header = ",".join(["filename", *(f"embedding_{place}" for place in range(D))])
        lines = [",".join([name, *map(str, row)]) for name, row in zip(names, rows, strict=True)]
        (folder / "x.csv").write_text("\n".join([header, *lines]))
        return folder / "x.csv"
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for shard in range(2):
        part = slice(shard * 20, None if shard else 20)
        table = {"path": names[part], "vector": [row.tolist() for row in rows[part].astype(np.float16)]}
        parquet.write_table(pyarrow.table(table), folder / f"{shard}.parquet")
    return folder


@pytest.mark.parametrize("form", ["npy", "csv", "parquet"])
def test_embeddings_are_read_from_files(form: str, tmp_path: Path) -> None:
    vectors, classes = blobs(each=4)
    table = written(tmp_path, form)
    lines = [f"pictures/{row}.png,class-{classes[row]}" for row in range(28) if classes[row] < 4]
    (tmp_path / "known.csv").write_text("\n".join(["path,label", *lines]))
    source = Source(embeddings=str(table), labelled=str(tmp_path / "known.csv"), num_novel=3)
    data = load(source)
    assert data.source == source
    assert data.class_names[:4] == ("class-0", "class-1", "class-2", "class-3")
    same = from_embeddings(vectors, np.where(classes < 4, classes, -1), 3)
    found, wanted = (each.split.unlabelled.fetch(torch.arange(12)).float() for each in (data, same))
    torch.testing.assert_close(found, wanted, atol=2e-3, rtol=0)
    assert torch.equal(data.split.labels, same.split.labels)
    assert data.split.unlabelled.names[0].startswith(str(tmp_path / "pictures"))


def test_a_labelled_image_without_a_vector_is_named(tmp_path: Path) -> None:
    table = written(tmp_path, "csv")
    (tmp_path / "known.csv").write_text("path,label\npictures/99.png,cat\n")
    with pytest.raises(DataError, match=r"99\.png"):
        load(Source(embeddings=str(table), labelled=str(tmp_path / "known.csv")))


def test_pickles_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}, {}], object), allow_pickle=True)
    np.savez(tmp_path / "several.npz", np.eye(2))
    (tmp_path / "several.npz").rename(tmp_path / "y.npy")
    for name in ("x", "y"):
        (tmp_path / f"{name}.txt").write_text("a\nb")
        with pytest.raises(DataError, match="not a file of embeddings"):
            read_embeddings(tmp_path / f"{name}.npy")


def test_without_unlabelled_vectors_a_run_learns_the_known_classes(tmp_path: Path) -> None:
    vectors, classes = blobs()
    results = newfound.discover("centroids", from_embeddings(vectors, classes, 0), tmp_path, verbose=False)
    assert results.classes is not None
    assert (results.classes.novel, results.cluster_sizes, results.warnings) == ([], [], [])
    found = Trained.load(Folder(tmp_path)).scores(Vectors(unit_vectors(vectors), list(map(str, classes))))
    assert (found.argmax(1).numpy() == classes).all()
    with pytest.raises(DataError, match="cannot be of 0 novel classes"):
        from_embeddings(vectors, np.where(classes < 4, classes, -1), 0)


def test_a_run_on_vectors_predicts_vectors(tmp_path: Path) -> None:
    vectors, classes = blobs()
    data = from_embeddings(vectors, np.where(classes < 4, classes, -1), 3, pile="novel")
    newfound.discover("centroids", data, tmp_path / "run", verbose=False, device="cpu")
    new = np.concatenate([vectors[classes == c][:2, 0] for c in range(7)])
    np.save(tmp_path / "new.npy", new)
    (tmp_path / "new.txt").write_text("\n".join(map(str, range(14))))
    found = newfound.predict(tmp_path / "run", tmp_path / "new.npy").classes
    assert list(found[:8]) == ["0", "0", "1", "1", "2", "2", "3", "3"]
    assert len(set(found[8:])) == 3
    np.save(tmp_path / "new.npy", new[:, :5])
    with pytest.raises(DataError, match="5 features"):
        newfound.predict(tmp_path / "run", tmp_path / "new.npy")


def test_vectors_of_new_images_are_joined(tmp_path: Path) -> None:
    """An image that is in several files has the first of its vectors."""
    vectors = np.eye(5)
    for name, rows in {"old": [0, 1], "new": [1, 2, 3], "newer": [3, 0, 4]}.items():
        np.save(tmp_path / f"{name}.npy", vectors[rows] * (-1 if name == "newer" else 1))
        (tmp_path / f"{name}.txt").write_text("\n".join(map(str, rows)))
    places = [str(tmp_path / f"{name}.npy") for name in ("old", "new", "newer")]
    found = joined_embeddings(places[0], places[1:]).vectors
    assert [Path(name).name for name in found.names] == ["0", "1", "2", "3", "4"]
    signed = vectors * [[1], [1], [1], [1], [-1]]
    assert (found.fetch(torch.arange(5))[:, 0].numpy() == signed).all()


@pytest.mark.parametrize("views", [1, 2])
def test_vectors_are_read_when_they_are_needed(
    views: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow, storage = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    made = Made(encoder=EncoderVersion(encoder="lite0", revision="", preprocessing=""), views=views)
    shards, vectors = Shards(tmp_path, made), np.eye(3, dtype=np.float16)[:, None].repeat(views, 1)
    for row, name in enumerate("abc"):
        shards.publish(f"{name}.parquet", [f"{name}.png"], vectors[row : row + 1], [name])
    opened, read = list[str](), parquet._group

    def logged(path: str, number: int) -> NDArray[np.floating]:
        opened.append(path)
        return read(path, number)

    monkeypatch.setattr(parquet, "_group", logged)
    found = read_embeddings(tmp_path).vectors
    assert {*opened} <= {str(tmp_path / "a.parquet")}  # which says that they are numbers
    assert [part.shape for part in found.parts] == [(1, *vectors.shape[1 + (views == 1) :])] * 3
    assert torch.equal(found.fetch(torch.arange(3)), torch.from_numpy(vectors))

    flat = {"path": ["d.png"], "x": [1.0], "y": [0.0]}
    storage.write_table(pyarrow.table(flat), tmp_path / "flat.parquet")
    assert read_embeddings(tmp_path / "flat.parquet").vectors.size == (1, 2)
    missing = pyarrow.array([None], pyarrow.list_(pyarrow.float16(), 3))
    storage.write_table(pyarrow.table({"path": ["d.png"], "vector": missing}), tmp_path / "null.parquet")
    with pytest.raises(DataError, match=r"null\.parquet is not a file of embeddings"):
        read_embeddings(tmp_path / "null.parquet")


@pytest.mark.parametrize("name", [None, 5, ["a"]])
def test_a_name_is_text(name: object, tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"path": [name], "embedding": [[1.0]]})
    parquet.write_table(table, tmp_path / "e.parquet")
    with pytest.raises(DataError, match="column 'path' is not text"):
        read_embeddings(tmp_path / "e.parquet")
    made = Made(encoder=EncoderVersion(encoder="lite0", revision="", preprocessing=""), views=1)
    Shards(tmp_path / "made", made).publish("a.parquet", ["a.png"], np.ones((1, 1, 1), np.float16), ["a"])
    whole = parquet.read_table(tmp_path / "made" / "a.parquet")
    table = whole.set_column(3, "digest", pyarrow.array([name]))
    parquet.write_table(table, tmp_path / "made" / "a.parquet")
    with pytest.raises(DataError, match="column 'digest' is not text"):
        read_embeddings(tmp_path / "made" / "a.parquet")


@pytest.mark.parametrize("name", ["e.npy", "e.csv", "e.parquet"])
def test_a_pipe_is_no_file_of_embeddings(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    (tmp_path / "e.txt").write_text("a\n")
    with pytest.raises(NewfoundError, match="Not a regular file"):
        read_embeddings(tmp_path / name)


@pytest.mark.parametrize("method", ["kmeans", "centroids", "uno-v2"])
def test_of_many_vectors_a_sample_is_trained_on(
    method: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """From files that are read as they are needed, and from arrays; every vector gets a class."""
    vectors, classes = blobs()
    labels = np.where(classes < 4, classes, -1)
    np.save(tmp_path / "all.npy", vectors)
    (tmp_path / "all.txt").write_text("\n".join(map(str, range(len(classes)))))
    rows = [f"{row},{label}" for row, label in enumerate(labels) if label >= 0]
    (tmp_path / "known.csv").write_text("\n".join(["path,label", *rows]))
    source = Source(embeddings=str(tmp_path / "all.npy"), labelled=str(tmp_path / "known.csv"), num_novel=3)
    given = {"sample": 60, "epochs": 2, "verbose": False, "device": "cpu"}
    given |= {"epochs": 0} if method != "uno-v2" else {}
    with caplog.at_level("INFO", "newfound"):
        stored = newfound.discover(method, load(source), tmp_path / "stored", **given)
    assert "a random sample of 60 of 120 vectors" in caplog.text
    newfound.discover(method, from_embeddings(vectors, labels, 3), tmp_path / "arrays", **given)
    assert stored.classes is not None
    found, same = (
        Assignments.read(tmp_path / name / "assignments.csv", stored.classes) for name in ("stored", "arrays")
    )
    assert len(found.ids) == 120
    assert (found.ids == same.ids).all()
    if method != "uno-v2":
        assert newfound.hungarian_accuracy(found.ids, classes[labels < 0]) == 1
