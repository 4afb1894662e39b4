"""Load a finished run: its method, images and scores, its predictions on new images, and relocate it."""

import io
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from newfound.core.errors import DataError, Hint, UsageError
from newfound.core.files import check_apart, located, write_record
from newfound.core.learner import Method
from newfound.core.source import Source
from newfound.data.archives import Block
from newfound.data.dataset import Dataset
from newfound.data.decode import Reading, decode_all, scaled
from newfound.data.folders import load_pile
from newfound.data.images import ImageSet, ResidentImages
from newfound.data.members import is_there
from newfound.data.vectors import StoredVectors, Vectors, holds_vectors, load_vectors
from newfound.data.workers import read_all
from newfound.engine.checkpoint import load_strictly
from newfound.engine.device import resolve_device, resolve_precision
from newfound.engine.embedding import Embedder
from newfound.engine.evaluate import Viewer, outside, scores_of
from newfound.run.folder import Folder
from newfound.run.frozen import Embeddings, load_data
from newfound.run.pile import Assignments, Pile
from newfound.run.recipe import build_method, stored_recipe
from newfound.run.training import State, best_head, check_same_images

log = logging.getLogger(__name__)
CHUNK = 16_384
"""Images that are predicted together."""
TINY = 16
"""Pictures up to this size are compressed without loss."""


@dataclass(frozen=True)
class Trained:
    """The trained method of a finished run."""

    method: Method
    viewer: Viewer
    state: State
    head: int
    """The head whose predictions the run reports."""
    temperature: float

    @classmethod
    def load(cls, folder: Folder) -> "Trained":
        """Load it from the folder alone; the images that it was trained on are not needed."""
        results, recipe = folder.read_results(), stored_recipe(folder.request())
        state, checkpoint = State.load(folder.checkpoint)
        device = resolve_device("auto")
        try:  # the run's precision if this device has it, so that predictions are those that were stored
            precision = resolve_precision(recipe.run.precision, device)
        except UsageError:
            precision = resolve_precision("auto", device)
        method = build_method(recipe, state.task, state.look, device, pretrained=False)
        load_strictly(method, checkpoint.weights, folder.checkpoint)
        viewer = Viewer(method, state.look, device, precision)
        return cls(method, viewer, state, best_head(state.lines), results.calibration.temperature)

    def scores(self, images: ImageSet) -> Tensor:
        """(n, C) scores of the selected head, known classes first."""
        return self.viewer.over(images.to(self.viewer.device), lambda x: self.method.scores(x)[self.head])

    def shares(self, images: ImageSet) -> NDArray[np.floating]:
        """(n, C) calibrated probabilities of the selected head."""
        shares: NDArray[np.floating] = (self.scores(images) / self.temperature).softmax(-1).cpu().numpy()
        return shares

    def features(self, images: ImageSet) -> Tensor:
        """(n, D) features of the encoder."""
        return self.viewer.over(images.to(self.viewer.device), self.method.encoder)


def images_of(folder: Folder, data_dir: str | None = None) -> Dataset:
    """Load the images that a run was trained on; refuse them if they have changed."""
    folder.check_images_exist()
    source = folder.request().source
    data = load_data(source.model_copy(update={"data_dir": data_dir}) if data_dir else source, folder.cache)
    check_same_images(folder, data)
    return data


def has_pictures(images: ImageSet) -> bool:
    """Whether there are pictures to show: of images, or of vectors that are named after image files."""
    return len(images) > 0 and (
        not isinstance(images, Vectors | StoredVectors) or all(map(is_there, images.names))
    )


class Pictures:
    """Pictures of a run's unlabelled images, from the original files if there are any."""

    def __init__(self, images: ImageSet) -> None:
        """Show loaded images, or the image files that vectors are named after."""
        if not has_pictures(images):
            raise DataError("These vectors have no image files to show.")
        self._images = images

    @classmethod
    def load(cls, folder: Folder, data_dir: str | None = None) -> "Pictures":
        """Show the images of a finished run, which must not have changed."""
        images, source = images_of(folder, data_dir).split.unlabelled, folder.request().source
        if source.frozen and not has_pictures(images):  # a benchmark whose images are not files
            images = load_data(source.unembedded, folder.cache).split.unlabelled
        return cls(images)

    def __call__(self, rows: Sequence[int], side: int) -> list[bytes]:
        """Encoded pictures, with the aspect ratios of the images, at most `side` pixels wide and high."""
        names = [self._images.names[row] for row in rows]
        found, failed = dict[int, bytes](), list[str]()
        vectors = isinstance(self._images, Vectors | StoredVectors)
        if vectors or all(name == located(name) for name in names):
            found, failed = read_all(names, lambda at: _encoded(scaled(names[at], side)))
        if failed and vectors:
            raise DataError(f"An image of the run cannot be read: {failed[0]}.", Hint.RELOCATE)
        return [found[at] if at in found else self._as_seen(row, side) for at, row in enumerate(rows)]

    def _as_seen(self, row: int, side: int) -> bytes:
        """The encoded image as the network sees it."""
        pixels = self._images.take(torch.tensor([row], device=self._images.device))[0]
        image = Image.fromarray(pixels.permute(1, 2, 0).cpu().numpy())
        image.thumbnail((side, side))
        return _encoded(image)


def _encoded(image: Image.Image) -> bytes:
    """The image as JPEG, or as PNG if it is tiny, since it is then shown enlarged."""
    out = io.BytesIO()
    image.save(out, "PNG" if max(image.size) <= TINY else "JPEG", quality=80)
    return out.getvalue()


@dataclass(frozen=True)
class Prediction:
    """Predictions on new images."""

    images: Sequence[str]
    """Absolute paths."""
    shares: NDArray[np.floating]
    """(n, C) probabilities among all classes, known ones first"""
    features: NDArray[np.floating] | None
    """(n, D) features of the encoder, if requested"""
    left_out: Sequence[str]
    """Files that could not be read, each with the reason."""
    unsorted: NDArray[np.bool_]
    """(n,) whether an image is too far from its most probable class"""
    digests: Sequence[str]
    """(n,) digests of their contents; empty if they are not files"""


def takes_vectors(source: Source, place: str) -> bool:
    """Whether a run takes what is in this place as embeddings rather than images."""
    return source.name == "vectors" and (not source.frozen or holds_vectors(place))


class Predictor:
    """Predicts the classes of new images with a finished run."""

    reading: Reading | None = None
    """The progress of all parts, if their images have been counted."""

    def __init__(self, folder: Folder, strict: bool = False, with_features: bool = False) -> None:
        self.run, self.source = Trained.load(folder), folder.request().source
        self.strict, self.with_features = strict, with_features
        self.extent, self.look = Pile.read(folder.pile).extent, self.run.state.look
        self.frozen = Embeddings(self.source, folder.cache) if self.source.frozen else None
        if not self.run.method.joint:
            log.warning(
                "%s scores known and novel classes separately; whether an image is known or novel is a guess",
                folder.request().method,
            )

    def __call__(self, place: str) -> Iterator[Prediction]:
        """Predict a folder, a CSV, a list or a file of images, or embeddings, some at a time."""
        if takes_vectors(self.source, place):
            return self.vectors(place)
        look = self.look
        pile, skipped = load_pile(place, look.stored, self.strict, look.crops, frozen=self.frozen)
        return self._predicted(pile, pile.contents(), skipped)

    def vectors(self, place: str) -> Iterator[Prediction]:
        """Predict embeddings in files, some at a time."""
        vectors = load_vectors(place, self.look, self.source.embedded_by)
        return self._predicted(vectors, vectors.contents(), ())

    def images(self, blocks: Iterable[Block]) -> Iterator[Prediction]:
        """Predict the images of a part, some at a time."""
        for names, contents, _ in blocks:
            if self.frozen:
                yield from self._embedded(names, contents, self.frozen.embedder)
            else:
                yield from self._decoded(names, contents)

    def _embedded(
        self, names: Sequence[str], contents: Sequence[bytes] | None, embedder: Embedder
    ) -> Iterator[Prediction]:
        batches = list(embedder.files(names, self.strict, contents, self.reading))
        kept = [names[row] for batch in batches for row in batch.rows]
        vectors = torch.cat([batch.vectors for batch in batches]).float()
        images = Vectors(F.normalize(vectors, dim=-1).half(), kept)
        digests = [digest for batch in batches for digest in batch.digests]
        return self._predicted(images, digests, [failed for batch in batches for failed in batch.failed])

    def _decoded(self, names: Sequence[str], contents: Sequence[bytes] | None) -> Iterator[Prediction]:
        size = (self.look.stored, self.look.stored)
        digests = list[str]()
        pixels, kept, failed = decode_all(
            names, size, self.strict, self.reading, crop=self.look.crops, contents=contents, digests=digests
        )
        images = ResidentImages(pixels, [names[row] for row in kept])
        return self._predicted(images, digests, failed)

    def _predicted(
        self, pile: ImageSet, digests: Sequence[str], skipped: Sequence[str]
    ) -> Iterator[Prediction]:
        """Predict images some at a time, since scores for all classes take more memory than vectors."""
        for rows in torch.split(torch.arange(len(pile)), CHUNK):
            some = pile.select(rows)
            shares = self.run.shares(some) if len(some) else np.empty((0, self.run.method.task.num_classes))
            features = self.run.features(some).cpu().numpy() if self.with_features and len(some) else None
            unsorted = np.zeros(len(shares), dtype=bool)
            if self.extent and len(some):
                unsorted = outside(self.extent, some, shares.argmax(1), self.run.viewer)
            known = [digests[row] for row in rows.tolist()] if digests else []
            yield Prediction([*map(located, some.names)], shares, features, skipped, unsorted, known)
            skipped = ()


@dataclass(frozen=True)
class RunScores:
    """The scores of a run on the images that figures show."""

    title: str
    scores: NDArray[np.floating]
    """(n, C) joint logits, known classes first"""
    novel: NDArray[np.floating]
    """(n, C_u) scores of the novel classes"""
    labels: NDArray[np.integer]
    """(n,) classes as joint ids: true ones, or else those that the run found"""
    class_names: Sequence[str]
    num_known: int
    found: bool = False
    """Without ground truth: these are training images with the classes that the run found."""


def run_scores(folder: Folder, data_dir: str | None = None) -> RunScores:
    """The scores of the test images, or without ground truth of the training images."""
    run, data = Trained.load(folder), images_of(folder, data_dir)
    truth, split, num_known = data.truth, data.split, run.method.task.num_known
    images = (truth.test if truth else split.unlabelled).to(run.viewer.device)
    joint, novel = (each[run.head].cpu() for each in scores_of(run.method, run.viewer, images))
    if truth:
        labels = truth.test_labels
    else:
        found = joint.argmax(-1) if split.pile == "mixed" else novel.argmax(-1) + num_known
        labels = torch.cat([split.labels, found])
        joint = torch.cat([run.scores(split.labelled).cpu(), joint])
        novel = joint[:, num_known:]
    scores = joint.numpy(), novel.numpy(), labels.numpy()
    return RunScores(folder.request().method, *scores, data.class_names, num_known, truth is None)


def relocate(folder: Folder, labelled: str | None, unlabelled: str | None) -> None:
    """Record where the images of a run are now; they must be the same images in the same order.

    The config is written last, so that an interrupted call can be repeated.
    """
    before = folder.request()
    moved = {key: value for key, value in (("labelled", labelled), ("unlabelled", unlabelled)) if value}
    now = Source.model_validate(before.source.model_dump() | moved)
    check_apart(folder.path, now.labelled, now.unlabelled)
    data = load_data(now, folder.cache)
    check_same_images(folder, data)
    if folder.results.exists() and (classes := folder.read_results().classes):
        found = Assignments.read(folder.assignments, classes)
        pile = data.split.unlabelled.names
        done = list(found.images) == list(pile)  # by an earlier call that was interrupted
        if not done and before.source.relative(found.images) != now.relative(pile):
            raise UsageError(f"The names or the order of the images in {now.unlabelled} have changed.")
        replace(found, images=pile).write(folder.assignments, classes)
    places = {"labelled": now.labelled, "unlabelled": now.unlabelled}
    if estimate := folder.read_estimate():
        source = estimate.source.model_copy(update=places)
        write_record(folder.estimate, estimate.model_copy(update={"source": source}))
    for path in (*folder.inner("trust").path.rglob("config.json"), folder.config):
        request = Folder(path.parent).request()
        source = request.source.model_copy(update=places)
        write_record(path, request.model_copy(update={"source": source}))
