"""`newfound embed` and what takes its vectors: discover, estimate, calibrate, predict."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import newfound as library
from newfound.core.encoder import Encoder, Preprocessing
from newfound.core.errors import UsageError
from newfound.core.registry import ENCODERS
from newfound.data import parquet
from newfound.data.vectors import read_embeddings
from newfound.engine import embedding
from newfound.engine.embedding import Embedded, Embedder
from newfound.review.edits import UNSORTED_ID
from newfound.review.review import Review
from newfound.run.folder import Folder
from newfound.run.pile import Pile
from newfound.run.trained import Pictures
from tests.cli.calls import newfound, refused, textures, works

pytest.importorskip("pyarrow")
LOOK = Preprocessing(8, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), shorter=10)
COLOURS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200), "grey": (90, 90, 90)}


class Colours(Encoder):
    """The mean colour of each quarter."""

    dim, revision, preprocessing = 12, "one", LOOK

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


@pytest.fixture(autouse=True)
def encoder() -> Iterator[None]:
    """A pretrained encoder called colours, of small batches."""
    ENCODERS.load()
    ENCODERS.add("colours", Colours)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding, "BATCH", {"cpu": 4, "cuda": 4})
        yield
    del ENCODERS.items["colours"]


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """known/ with four classes of ten images, pile/ with twenty images of two more."""
    folder = tmp_path_factory.mktemp("photographs")
    for seed, (name, colour) in enumerate(COLOURS.items()):
        textures(folder / "known" / name, colour, 10, seed)
    textures(folder / "pile" / "a", (200, 200, 40), 10, 10)
    textures(folder / "pile" / "b", (40, 200, 200), 10, 11)
    return folder


def embed(images: Path, out: Path, *options: str) -> str:
    return works("embed", images, "--encoder", "colours", "--out", out, *options)


def test_images_are_embedded_once(photographs: Path, tmp_path: Path) -> None:
    feats = tmp_path / "feats"
    assert "20 images embedded" in embed(photographs / "pile", feats)
    assert "20 embedded before" in embed(photographs, feats)
    found = read_embeddings(feats)
    assert sorted(found.vectors.names) == sorted(map(str, photographs.rglob("*.png")))
    assert found.encoder is not None
    assert (found.encoder.encoder, found.encoder.revision) == ("colours", "one")
    (batch,) = Embedder(Colours(), torch.device("cpu"), torch.float32).files([found.vectors.names[-1]])
    stored = found.vectors.parts[-1]
    np.testing.assert_array_equal(stored[np.array([len(stored) - 1])][0], batch.vectors[0, 0])
    assert stored[np.array([0])].dtype == np.float16
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(feats)
    assert table.column_names == ["path", "embedding", "encoder", "digest"]
    assert table.column("encoder")[0].as_py() == "colours@one"
    assert table.column("digest")[59].as_py() == batch.digests[0]
    assert table.column("path")[0].as_py() == os.path.relpath(found.vectors.names[0], feats)


def test_other_vectors_in_the_folder_are_refused(
    photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pile, feats = photographs / "pile", tmp_path / "feats"
    embed(pile, feats, "--views", "3")
    vectors = read_embeddings(feats).vectors
    assert (len(vectors), *vectors.size) == (20, 3, 12)
    call = ("embed", pile, "--encoder", "colours", "--out", feats)
    refused(2, call, "holds embeddings with views=3")
    monkeypatch.setattr(Colours, "revision", "two")
    refused(2, (*call, "--views", "3"), "holds embeddings with revision=one")
    refused(2, (*call[:3], "small", *call[4:]), "Only a pretrained encoder")


def test_what_was_embedded_survives_an_interruption(
    photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pile, feats = photographs / "pile", tmp_path / "feats"
    monkeypatch.setattr(parquet, "ROWS", 8)
    with monkeypatch.context() as patch:
        whole = Embedder.files

        def interrupted(self: Embedder, paths: list[str], strict: bool = False) -> Iterator[Embedded]:
            self.batch = 4
            yield from islice(whole(self, paths, strict), 3)
            raise KeyboardInterrupt

        patch.setattr(Embedder, "files", interrupted)
        done = newfound("embed", pile, "--encoder", "colours", "--out", feats)
    assert (done.code, done.err) == (130, "Stopped by Ctrl-C. Repeat the command to continue.\n")
    assert sorted(path.name for path in feats.glob("*.parquet")) == [
        "embeddings-00000.parquet",
        "embeddings-00001.parquet",
    ]
    assert "8 images embedded" in embed(pile, feats)
    assert len(set(read_embeddings(feats).vectors.names)) == 20


def test_a_file_that_cannot_be_read_is_left_out(photographs: Path, tmp_path: Path) -> None:
    pile = tmp_path / "pile"
    shutil.copytree(photographs / "pile", pile)
    (pile / "broken.png").write_text("no image")
    out = embed(pile, tmp_path / "feats")
    assert "broken.png: not an image" in out
    assert "20 images embedded" in out
    assert "0 images embedded" in embed(pile, tmp_path / "feats")
    refused(1, ("embed", pile, "--encoder", "colours", "--out", tmp_path / "feats", "--strict"), "broken.png")


def test_without_pyarrow_one_line_says_what_to_install(
    photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed(photographs / "pile", tmp_path / "feats")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UsageError, match=r"pip install 'newfound\[parquet\]'"):
        library.embed(photographs / "pile", "colours", tmp_path / "feats", verbose=False)
    with pytest.raises(UsageError, match=r"pip install 'newfound\[parquet\]'"):
        read_embeddings(tmp_path / "feats")


@pytest.mark.slow
def test_the_verbs_take_embeddings(
    photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feats, run = tmp_path / "feats", tmp_path / "run"
    images = ("--labelled", photographs / "known", "--unlabelled", photographs / "pile", "--num-novel", "2")
    works("discover", "centroids", *images, "encoder=colours", "--out", tmp_path / "first")
    with monkeypatch.context() as patch:
        patch.setattr(Embedder, "_encode", None)
        assert f"{feats}: 0 images embedded, 60 before" in embed(photographs, feats, "--views", "2")
    given = ("--embeddings", feats, "--labelled", photographs / "known")
    with monkeypatch.context() as patch:  # the vectors say what the images contain
        patch.setattr("newfound.data.decode.read_image", None)
        works("discover", "centroids", *given, "--num-novel", "2", "--out", run)
    assert len(set(Pile.read(run / "pile.safetensors").digests)) == 20
    results = json.loads((run / "results.json").read_text())
    assert results["embedded_by"]["encoder"] == "colours"
    assert results["cluster_sizes"] == [10, 10]
    quick = ("pretrain.epochs=2", "pretrain.warmup=0", "estimate.max_novel=3", "estimate.restarts=1")
    out = works("estimate", *given, "--out", tmp_path / "estimate", *quick, "device=cpu")
    assert "Estimate: " in out
    tried = ("neighbours=3,5", "trials=0", "device=cpu")
    where = (*given, "--seeds", "1", "--pile", "mixed", "--out", tmp_path / "tried")
    out = works("calibrate", "centroids", *tried, *where)
    assert "centroids on vectors" in out
    assert "generalised ACC" in out

    new = tmp_path / "new"
    monkeypatch.setattr(Colours, "revision", "two")
    embed(photographs / "pile", new)
    refused(1, ("predict", run, new), "colours@two", "colours@one")
    assert "novel-2" in works("predict", run, feats)


def test_vectors_of_new_images_join_a_reviewed_run(
    photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They keep to the run's classes, their ids and its encoder; copies of its images stay out."""
    feats, new, first, second = (tmp_path / name for name in ("feats", "new-feats", "first", "second"))
    embed(photographs, feats, "--views", "2")
    known = ("--labelled", photographs / "known")
    works("discover", "centroids", "--embeddings", feats, *known, "--num-novel", "2", "--out", first)
    kept, moved = Review.open(first).names[4], Review.open(first).assignments.images[0]
    works("classes", first, "rename", f"{kept}=kept")
    works("classes", first, "move", "unsorted", moved)
    more = textures(tmp_path / "more", (60, 60, 60), 8, 12)
    shutil.copy(min((photographs / "pile").rglob("*.png")), more / "copy.png")
    call = ("discover", "--from", first, "--num-novel", "1", "--out", second)
    refused(2, (*call, "--unlabelled", more), "images cannot join. Run newfound embed first")
    embed(more, tmp_path / "one-view")
    refused(1, (*call, "--embeddings", tmp_path / "one-view"), "has 1 view of each image, the run 2")
    with monkeypatch.context() as patch:
        patch.setattr(Colours, "revision", "two")
        embed(more, tmp_path / "two", "--views", "2")
    refused(1, (*call, "--embeddings", tmp_path / "two"), "colours@two, not colours@one")

    embed(more, new, "--views", "2")
    told = works(*call, "--embeddings", new)
    assert "1 new image left out: copies" in told
    found, settled = Review.open(second), int(Review.open(first).settled.sum())
    assert len(found.assignments.images) == 20 - settled + 8
    assert moved in found.assignments.images
    assert str(more / "copy.png") not in found.assignments.images
    assert {4: "kept", 6: "novel-1"}.items() <= found.names.items()
    assert len(Pictures.load(Folder(second))([0], 8)) == 1
    same = works(*call, "--embeddings", new, "--resume")
    assert same.splitlines()[-1] == told.splitlines()[-1]
    data = library.from_run(first, tmp_path / "python", embeddings=new, num_novel=1)
    assert data.split.unlabelled.names == found.assignments.images
    assert "kept" in works("predict", second, feats)
    works("export", second, tmp_path / "sorted")
    assert len(list((tmp_path / "sorted").glob("*/*.png"))) == len(found.assignments.images)

    only = ("--only", "unsorted", "--embeddings", new, "--num-novel", "1", "--out", tmp_path / "only")
    works("discover", "--from", first, *only)
    rest, ids = Review.open(tmp_path / "only"), Review.open(first).ids
    assert len(rest.assignments.images) == (ids == UNSORTED_ID).sum() + 8
    assert moved in rest.assignments.images
    assert {4: "kept", 5: "novel-2", 6: "novel-1"}.items() <= rest.names.items()

    sorted_already = sorted(more.rglob("*.png"))[:3]
    lines = [f"{path},novel-1" for path in sorted_already]
    (tmp_path / "predictions.csv").write_text("\n".join(["image,class", *lines]))
    fewer = (*only[:-1], tmp_path / "fewer", "--unlabelled", tmp_path / "predictions.csv")
    assert "3 new images left out: in a class already" in works("discover", "--from", first, *fewer)
    left = Review.open(tmp_path / "fewer").assignments.images
    assert {*left} == {*rest.assignments.images} - {*map(str, sorted_already)}

    works("classes", second, "rename", "novel-1=new")
    last = works(
        "discover", "--from", second, "--embeddings", feats, "--num-novel", "1", "--out", tmp_path / "3"
    )
    assert f"{found.folder.path}: " in last
    assert {4: "kept", 6: "new"}.items() <= Review.open(tmp_path / "3").names.items()


def test_a_plan_embeds_some_images_and_writes_nothing(photographs: Path, tmp_path: Path) -> None:
    call = ("--labelled", photographs / "known", "--unlabelled", photographs / "pile", "--num-novel", "2")
    said = works("plan", *call, "encoder=colours", "--out", tmp_path / "runs" / "mine")
    assert "memory: about" in said
    assert "time: about" in said
    assert not (tmp_path / "runs").exists()
