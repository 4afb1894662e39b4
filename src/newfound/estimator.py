"""The library in the way of scikit-learn: fit on images of which some are labelled, predict on new ones."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from newfound.api import discover
from newfound.core.errors import UsageError
from newfound.core.records import Task
from newfound.data.arrays import Arrays, Labels, array_images, from_arrays
from newfound.engine.bank import Viewer
from newfound.estimate.config import split_settings
from newfound.experiment.assignments import Assignments
from newfound.experiment.estimation import estimate_num_novel
from newfound.experiment.folder import Folder
from newfound.experiment.reopen import load_method
from newfound.experiment.run import best_head
from newfound.experiment.source import looking_for
from newfound.metrics.protocols import task_agnostic

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
UNLABELLED = -1


class NovelClassDiscovery(BaseEstimator):  # type: ignore[misc]
    """Finds the classes of unlabelled images; y is -1 there, and a class from 0 on elsewhere.

    num_novel: how many new classes, or "auto"; method: `newfound.method_names()` lists them; out: the folder
    of the run, None for one that goes with the object; random_state: the seed; settings: those of
    `newfound methods METHOD`.

    After `fit`: classes_ are the known classes as in y, then the new ones, numbered on from the highest;
    labels_ (n,) are the given and found classes; results_ is the run's results.json; run_ its folder.
    """

    def __init__(
        self,
        num_novel: int | Literal["auto"] = "auto",
        method: str = "iic",
        *,
        out: str | Path | None = None,
        random_state: int = 0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.num_novel, self.method, self.out = num_novel, method, out
        self.random_state, self.settings = random_state, settings

    def fit(self, X: Arrays, y: Labels) -> Self:
        """Images (n, H, W) or (n, H, W, C) and labels (n,), -1 where there is none."""
        settings = {**(self.settings or {}), "seed": self.random_state}
        self._temporary = TemporaryDirectory() if self.out is None else None
        out = Path(self._temporary.name, "run") if self._temporary else Path(str(self.out))
        data = from_arrays(X, y, 1 if self.num_novel == "auto" else self.num_novel)
        if self.num_novel == "auto":
            place = out.parent / f"{out.name}-estimate"
            found = estimate_num_novel(data, place, method=self.method, **settings)
            data = looking_for(found["num_novel"], data)
        self.results_ = discover(self.method, data, out, **split_settings(settings)[1])
        labels = np.array(y, dtype=np.int64)
        self._open(out)
        labels[labels == UNLABELLED] = self._assigned()
        self.labels_ = labels
        return self

    def predict(self, X: Arrays) -> Ints:
        """(n,) the most probable of `classes_`, known or new, for new images."""
        shares = self.predict_proba(X)
        labels: Ints = self.classes_[shares.argmax(1)]
        return labels

    def predict_proba(self, X: Arrays) -> Floats:
        """(n, C) the probability of each of `classes_`."""
        return _numpy(self._scores(X).softmax(-1))

    def transform(self, X: Arrays) -> Floats:
        """(n, D) the features that the network sees."""
        check_is_fitted(self)
        return _numpy(self._over(X, self._method.encoder))

    def score(self, X: Arrays, y: Labels) -> float:
        """Accuracy on images of which all classes are given: new ones are matched one to one, known are not.

        Classes of y that were not labelled in `fit` are the new ones.
        """
        check_is_fitted(self)
        classes = np.asarray(y, dtype=np.int64)
        known = self.classes_[: self._method.task.num_known]
        novel = np.setdiff1d(classes, known)
        order = {int(label): place for place, label in enumerate([*known, *novel])}
        joint = torch.tensor([order[int(label)] for label in classes])
        (found,) = task_agnostic(self._scores(X)[None], joint, self._method.task)
        return found["novel-ids"].all

    def save(self, folder: str | Path) -> None:
        """Copy all that `load` needs, and what the run has written besides, to a new folder."""
        check_is_fitted(self)
        if Path(folder).exists():
            raise UsageError(f"a model is saved to a new folder; {folder} is there already; choose another")
        shutil.copytree(self.run_, folder)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A fitted estimator from the folder of a run that `fit` has made; it has no `labels_`."""
        run = Folder(Path(folder))
        if run.source().arrays is None:
            raise UsageError(
                f"a model must be of images that were given as arrays; {folder} is a run on files; use "
                "newfound predict"
            )
        recipe = run.recipe()
        found = cls(method=recipe.method, out=folder, random_state=recipe.run.seed)
        found.results_ = run.read_results()
        found._open(run.path)
        found.num_novel = found._method.task.num_novel
        return found

    def _open(self, run: Path) -> None:
        self.run_ = run
        self._method, self._viewer, checkpoint = load_method(Folder(run))
        self._head = best_head(checkpoint.state["lines"])
        task: Task = self._method.task
        known = [int(name) for name in checkpoint.state["class_names"][: task.num_known]]
        self.classes_ = np.array([*known, *range(max(known) + 1, max(known) + 1 + task.num_novel)])

    def _assigned(self) -> Ints:
        """(m,) the class that the run gives each unlabelled image, as in its assignments.csv."""
        found = Assignments.read(Folder(self.run_).assignments, self.results_["classes"]["novel"])
        novel: Ints = self.classes_[self._method.task.num_known + found.clusters]
        return novel

    def _scores(self, X: Arrays) -> Tensor:
        check_is_fitted(self)
        return self._over(X, lambda view: self._method.scores(view)[self._head])

    def _over(self, X: Arrays, function: Any) -> Tensor:
        viewer: Viewer = self._viewer
        images = array_images(X, (viewer.look.stored, viewer.look.stored)).to(viewer.device)
        return viewer.over(images, function)


def _numpy(values: Tensor) -> Floats:
    found: Floats = values.cpu().numpy()
    return found
