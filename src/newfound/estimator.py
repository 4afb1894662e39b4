"""A scikit-learn estimator: fit on partly labelled samples, predict on new ones."""

import logging
import shutil
import weakref
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from newfound.api import discovered, opened, shown
from newfound.core.calls import public
from newfound.core.errors import DataError, Hint, UsageError
from newfound.core.files import AnyPath, atomic_folder, check_new
from newfound.core.settings import Overrides
from newfound.core.source import PileKind
from newfound.data import arrays
from newfound.data.arrays import Labels
from newfound.data.images import ImageSet
from newfound.data.vectors import Vectors, from_embeddings, unit_vectors
from newfound.metrics.outliers import Floats
from newfound.metrics.protocols import task_agnostic
from newfound.run.folder import Folder
from newfound.run.frozen import Embeddings
from newfound.run.models import Results, Settings
from newfound.run.pile import Assignments
from newfound.run.recipe import VECTOR_METHOD, changed_settings, stored_recipe
from newfound.run.trained import Trained

log = logging.getLogger(__name__)
Samples = Any
"""Vectors (n, D) in any form that scikit-learn takes, or images: (n, H, W), (n, H, W, C) or a list."""
Classes = NDArray[np.generic]


class NovelClassDiscovery(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Finds the novel classes among partly labelled samples.

    X holds vectors (n, D), of which only the direction counts, or images: (n, H, W), (n, H, W, C) or a list.
    y holds whole numbers from 0, or strings; -1 marks unlabelled samples ("-1" among strings, as in
    np.array(["cat", -1])). If all vectors are labelled, there is nothing to discover, and the estimator is a
    plain classifier.

    - num_novel: the number of novel classes, or "auto" to estimate it.
    - method: one of `newfound.method_names()`. None is centroids for vectors, and for photographs if a
      pretrained encoder is installed, and iic for other images.
    - pile: "mixed" if unlabelled samples may be of known classes, "novel" if not. None is what the method was
      made for.
    - out: a new folder for the run, or None for a temporary one, which `save` copies.
    - random_state: the seed.
    - settings: those that `newfound methods METHOD` lists.
    - verbose: print progress to standard output.

    After `fit`, classes_ holds the known classes as in y, then the novel ones, which continue the numbers or
    are named novel-1, novel-2, ...; labels_ (n,) holds the given and the discovered classes; results_ is the
    record of the run, and run_ its folder.
    """

    def __init__(
        self,
        num_novel: int | Literal["auto"] = "auto",
        method: str | None = None,
        *,
        pile: PileKind | None = None,
        out: str | Path | None = None,
        random_state: int = 0,
        settings: Overrides | None = None,
        verbose: bool = False,
    ) -> None:
        self.num_novel, self.method, self.pile, self.out = num_novel, method, pile, out
        self.random_state, self.settings, self.verbose = random_state, settings, verbose

    def fit(self, X: Samples, y: Labels) -> Self:
        """Discover the classes of the samples whose label is -1."""
        seed = int(self.random_state) if isinstance(self.random_state, Integral) else self.random_state
        vectors = not _are_images(X)
        if vectors:
            X, y = self._validated(X, y)
        places, known = arrays.encoded(y, len(X))
        num_novel = None if self.num_novel == "auto" else self.num_novel
        if num_novel is None and vectors and self.method in (None, VECTOR_METHOD) and places.min() >= 0:
            log.warning("No label in y is -1, so there are no novel classes to find.")
            num_novel = 0
        data = (from_embeddings if vectors else arrays.from_arrays)(X, y, num_novel, pile=self.pile)
        out = Path(mkdtemp(), "run") if self.out is None else Path(self.out)
        if self.out is None:
            weakref.finalize(self, shutil.rmtree, out.parent, ignore_errors=True)
        folder = Folder(out.absolute())
        if folder.config.exists():
            raise UsageError(f"{folder.path} already holds a run.", Hint.NEW_FOLDER)
        with shown(self.verbose):
            run = opened(self.method, data, folder.path, False, {"seed": seed, **(self.settings or {})})
            results = discovered(run, data.split.unlabelled)
        self._open(folder, results, known)
        assert results.classes is not None
        places[places < 0] = Assignments.read(folder.assignments, results.classes).ids
        self.labels_ = self.classes_[places]
        return self

    def fit_predict(self, X: Samples, y: Labels) -> Classes:
        """Fit, and return `labels_` (n,), the given and the discovered classes."""
        return self.fit(X, y).labels_

    def predict(self, X: Samples) -> Classes:
        """The most probable of `classes_`, known or novel, for each new sample: (n,)."""
        best = self.predict_proba(X).argmax(1)
        labels: Classes = self.classes_[best]
        return labels

    def predict_proba(self, X: Samples) -> Floats:
        """The probability of each of `classes_`: (n, C)."""
        check_is_fitted(self, "classes_")
        return self._trained.shares(self._samples(X))

    def transform(self, X: Samples) -> Floats:
        """The features of the encoder: (n, D)."""
        check_is_fitted(self, "classes_")
        features: Floats = self._trained.features(self._samples(X)).cpu().numpy()
        return features

    def score(self, X: Samples, y: Labels) -> float:
        """Accuracy on fully labelled samples; only novel classes are matched, one to one.

        Classes of y that had no labelled sample in `fit` are novel.
        """
        check_is_fitted(self, "classes_")
        samples = self._samples(X)
        places, classes = arrays.encoded(y, len(samples))
        if places.min() < 0:
            raise DataError("A score needs the class of every sample, but some are -1.")
        task = self._trained.method.task
        known = self.classes_[: task.num_known]
        ordered = np.concatenate([known, np.setdiff1d(classes, known)])
        joint = torch.from_numpy((classes[places][:, None] == ordered).argmax(1))
        (found,) = task_agnostic(self._trained.scores(samples)[None], joint, task)
        return found["novel-ids"].all

    @public
    def save(self, folder: AnyPath) -> None:
        """Copy the run to a new folder, for `load`."""
        check_is_fitted(self, "classes_")
        target = Path(folder)
        check_new(target)
        if not self.run_.exists():
            raise UsageError(f"{self.run_} no longer exists: it was deleted with the estimator that made it.")
        with atomic_folder(target) as whole:
            shutil.copytree(self.run_, whole, dirs_exist_ok=True)

    @classmethod
    @public
    def load(cls, folder: AnyPath) -> Self:
        """Load a fitted estimator, without its `labels_`, from the folder of a run that `fit` made.

        If all known classes read as whole numbers, they are numbers.
        """
        run = Folder(Path(folder).absolute())
        request = run.request()
        source = request.source
        if source.arrays is None:
            raise UsageError(f"{folder} is not a run on arrays. Use newfound.predict instead.")
        results, recipe = run.read_results(), stored_recipe(request)
        settings: Settings = {"encoder": recipe.run.encoder, **changed_settings(recipe, source.name)}
        if source.frozen:
            settings |= {"encoder": source.frozen.encoder, "views": source.views}
        seed = int(settings.pop("seed", 0))
        known, novel = (results.classes.known, results.classes.novel) if results.classes else ([], [])
        found = cls(
            len(novel) or "auto", recipe.method, pile=source.pile, random_state=seed, settings=settings
        )
        numbers = all(name.isdecimal() for name in known)
        found._open(run, results, np.array(known, np.int64 if numbers else np.str_))
        return found

    def _open(self, folder: Folder, results: Results, known: Classes) -> None:
        self.run_, self.results_, self._trained = folder.path, results, Trained.load(folder)
        source = folder.request().source
        self._embedder = Embeddings(source, folder.cache).embedder if source.frozen else None
        novel = np.array(results.classes.novel if results.classes else [], np.str_)
        if known.dtype.kind != "U":
            novel = known.max() + 1 + np.arange(len(novel))
        self.classes_ = np.concatenate([known, novel])
        if self._trained.state.look.kind == "vectors" and not source.frozen:
            self.n_features_in_ = self._trained.state.look.size

    @property
    def _n_features_out(self) -> int:
        return self._trained.method.encoder.dim

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = []  # features are float32
        return tags

    def _validated(self, X: Samples, *y: Labels) -> Any:
        """X, or X and y in `fit`, as scikit-learn validates them."""
        if y and np.asarray(y[0]).dtype.kind == "f":
            check_classification_targets(y[0])
        return validate_data(self, X, *y, reset=bool(y), ensure_min_samples=2 if y else 1)

    def _samples(self, X: Samples) -> ImageSet:
        look = self._trained.state.look
        if look.kind == "vectors" and not self._embedder:
            values = unit_vectors(self._validated(X))
            return Vectors(values, [f"vector-{row}" for row in range(len(values))])
        images = arrays.array_images(X, (look.stored, look.stored))
        for warning in arrays.dark_warnings(images):
            log.warning(warning)
        if self._embedder:
            return Vectors(unit_vectors(torch.cat(list(self._embedder.images(images)))), images.names)
        return images


def _are_images(X: Samples) -> bool:
    """Whether X holds images: anything but a table or rows of numbers."""
    if isinstance(X, Sequence):
        return len(X) > 0 and np.ndim(X[0]) > 1
    return getattr(X, "ndim", 0) > 2
