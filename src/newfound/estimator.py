"""The library in the manner of scikit-learn: fit on partly labelled images, predict on new ones."""

import logging
import shutil
import weakref
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from newfound.api import discovered, shown
from newfound.core.errors import DataError, Hint, UsageError
from newfound.core.files import as_path, atomic_folder
from newfound.core.registry import recipe_for
from newfound.data import arrays
from newfound.data.arrays import Arrays, Labels
from newfound.data.images import ImageSet
from newfound.metrics.protocols import task_agnostic
from newfound.run.assignments import Assignments
from newfound.run.events import LogProgress
from newfound.run.folder import Folder
from newfound.run.models import Results
from newfound.run.pile import Floats
from newfound.run.recipe import DEFAULT_METHOD, changed_settings, split_settings, stored_recipe
from newfound.run.run import Run
from newfound.run.trained import Trained

log = logging.getLogger(__name__)
Ints = NDArray[np.int64]
UNLABELLED = -1


class NovelClassDiscovery(BaseEstimator):  # type: ignore[misc]
    """Finds the classes of unlabelled images; y is -1 there, and a class from 0 on elsewhere.

    num_novel: how many novel classes, or "auto"; method: `newfound.method_names()` lists them; out: a new
    folder for the run, None for a temporary one (`save` keeps it); random_state: the seed; settings: those
    of `newfound methods METHOD`; verbose: show progress on standard output.

    After `fit`: classes_ are the known classes as in y, then the novel ones, numbered on from the highest;
    labels_ (n,) are the given and found classes; results_ is the run's record; run_ its folder.
    """

    def __init__(
        self,
        num_novel: int | Literal["auto"] = "auto",
        method: str = DEFAULT_METHOD,
        *,
        out: str | Path | None = None,
        random_state: int = 0,
        settings: Mapping[str, Any] | None = None,
        verbose: bool = False,
    ) -> None:
        self.num_novel, self.method, self.out = num_novel, method, out
        self.random_state, self.settings, self.verbose = random_state, settings, verbose

    def fit(self, X: Arrays, y: Labels) -> Self:
        """Images (n, H, W) or (n, H, W, C), or a list of them, and labels (n,), -1 where there is none."""
        seed = int(self.random_state) if isinstance(self.random_state, Integral) else self.random_state
        search, settings = split_settings({"seed": seed, **(self.settings or {})})
        data = arrays.from_arrays(X, y, None if self.num_novel == "auto" else self.num_novel)
        recipe = recipe_for(self.method, "own", settings)
        out = Path(mkdtemp(), "run") if self.out is None else as_path(self.out, "out")
        if self.out is None:
            weakref.finalize(self, shutil.rmtree, out.parent, ignore_errors=True)
        folder = Folder(out.absolute())
        if folder.config.exists():
            raise UsageError(f"{folder.path} already holds a run.", Hint.NEW_FOLDER)
        with shown(self.verbose):
            results = discovered(Run(folder, data, recipe, search=search, watch=LogProgress()))
        self._open(folder, results)
        self.labels_ = arrays.checked_classes(y, len(X))
        novel = results.classes.novel if results.classes else []
        found = Assignments.read(folder.assignments, novel).clusters
        self.labels_[self.labels_ == UNLABELLED] = self.classes_[self._trained.method.task.num_known + found]
        return self

    def predict(self, X: Arrays) -> Ints:
        """(n,) the most probable of `classes_`, known or novel, for new images."""
        best = self.predict_proba(X).argmax(1)
        labels: Ints = self.classes_[best]
        return labels

    def predict_proba(self, X: Arrays) -> Floats:
        """(n, C) the probability of each of `classes_`."""
        check_is_fitted(self)
        shares: Floats = self._trained.scores(self._images(X)).softmax(-1).cpu().numpy()
        return shares

    def transform(self, X: Arrays) -> Floats:
        """(n, D) features of the encoder."""
        check_is_fitted(self)
        features: Floats = self._trained.features(self._images(X)).cpu().numpy()
        return features

    def score(self, X: Arrays, y: Labels) -> float:
        """Accuracy on images whose classes are all given: novel classes are matched one to one, known not.

        Classes of y that were not labelled in `fit` are the novel ones.
        """
        check_is_fitted(self)
        classes = arrays.checked_classes(y, len(X))
        if classes.min() == UNLABELLED:
            raise DataError("A score needs the class of every image, got -1 for some.")
        task = self._trained.method.task
        known = self.classes_[: task.num_known]
        ordered = np.concatenate([known, np.setdiff1d(classes, known)])
        joint = torch.from_numpy((classes[:, None] == ordered).argmax(1))
        (found,) = task_agnostic(self._trained.scores(self._images(X))[None], joint, task)
        return found["novel-ids"].all

    def save(self, folder: str | Path) -> None:
        """Copy the run to a new folder, for `load`."""
        check_is_fitted(self)
        target = as_path(folder, "folder")
        if target.exists():
            raise UsageError(f"{target} already exists.")
        if not self.run_.exists():
            raise UsageError(f"{self.run_} is gone; a temporary folder lives as long as its estimator.")
        with atomic_folder(target) as whole:
            shutil.copytree(self.run_, whole, dirs_exist_ok=True)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A fitted estimator from the folder of a run that `fit` has made; it has no `labels_`."""
        run = Folder(as_path(folder, "folder").absolute())
        request = run.request()
        if request.source.arrays is None:
            raise UsageError(f"{folder} is not a run on arrays. Use newfound.predict for it.")
        results, recipe = run.read_results(), stored_recipe(request)
        settings = changed_settings(recipe, request.source.name)
        seed = settings.pop("seed", 0)
        novel = results.classes.novel if results.classes else []
        found = cls(len(novel), recipe.method, random_state=seed, settings=settings)
        found._open(run, results)
        return found

    def _open(self, folder: Folder, results: Results) -> None:
        self.run_, self.results_, self._trained = folder.path, results, Trained.load(folder)
        known = [int(name) for name in results.classes.known] if results.classes else []
        novel = range(max(known) + 1, max(known) + 1 + self._trained.method.task.num_novel)
        self.classes_ = np.array([*known, *novel], dtype=np.int64)

    def _images(self, X: Arrays) -> ImageSet:
        side = self._trained.state.look.stored
        images = arrays.array_images(X, (side, side))
        for warning in arrays.dark_warnings(images):
            log.warning(warning)
        return images
