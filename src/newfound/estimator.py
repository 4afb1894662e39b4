"""The library in the way of scikit-learn: fit on images of which some are labelled, predict on new ones."""

import shutil
import weakref
from collections.abc import Callable, Mapping
from numbers import Integral
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from newfound.api import run_discovery
from newfound.core.errors import DataError, UsageError
from newfound.core.paths import checked_path
from newfound.data.arrays import (
    Arrays,
    Labels,
    array_images,
    checked_classes,
    dark_warnings,
    from_arrays,
    number_of,
)
from newfound.data.images import Dataset
from newfound.engine.files import atomic_folder, check_writable
from newfound.estimate.config import split_settings
from newfound.experiment.assignments import Assignments
from newfound.experiment.call import changed_settings
from newfound.experiment.estimation import told_estimate
from newfound.experiment.folder import Folder
from newfound.experiment.pile import Floats, numpy_of
from newfound.experiment.question import Question, noted_without_number
from newfound.experiment.reopen import load_method
from newfound.experiment.source import Source, looking_for
from newfound.experiment.telling import naming_arguments, voice, warn_of
from newfound.metrics.protocols import task_agnostic

Ints = NDArray[np.int64]
AUTO: Literal["auto"] = "auto"
UNLABELLED = -1


class NovelClassDiscovery(BaseEstimator):  # type: ignore[misc]
    """Finds the classes of unlabelled images; y is -1 there, and a class from 0 on elsewhere.

    num_novel: how many new classes, or "auto"; method: `newfound.method_names()` lists them; out: a new
    folder for the run, None for one that goes with the object (`save` keeps it); random_state: the seed;
    settings: those of `newfound methods METHOD`; verbose: whether to print how it goes; `fit` warns in
    any case of too few labelled images, and of what `results_["warnings"]` holds.

    After `fit`: classes_ are the known classes as in y, then the new ones, numbered on from the highest;
    labels_ (n,) are the given and found classes; results_ is the run's results.json; run_ its folder.
    """

    def __init__(
        self,
        num_novel: int | Literal["auto"] = AUTO,
        method: str = "iic",
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
        settings = self._checked_settings()
        data = from_arrays(X, y, 1 if self.num_novel == AUTO else self.num_novel)
        warn_of(data.warnings)
        temporary = mkdtemp() if self.out is None else None
        out = Path(temporary, "run") if temporary else checked_path(self.out, "out").absolute()
        try:
            with naming_arguments(again="another out"):
                results = self._run(data, out, settings)
        except BaseException:
            if temporary:
                shutil.rmtree(temporary, ignore_errors=True)
            raise
        if temporary:
            weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)
        self._open(out, results)
        self.labels_ = checked_classes(y, len(X))
        self.labels_[self.labels_ == UNLABELLED] = self._assigned()
        if found := Folder(out).read_estimate():
            warn_of(found["warnings"])
        warn_of(results["warnings"])
        return self

    def predict(self, X: Arrays) -> Ints:
        """(n,) the most probable of `classes_`, known or new, for new images."""
        shares = self.predict_proba(X)
        labels: Ints = self.classes_[shares.argmax(1)]
        return labels

    def predict_proba(self, X: Arrays) -> Floats:
        """(n, C) the probability of each of `classes_`."""
        return numpy_of(self._scores(X).softmax(-1))

    def transform(self, X: Arrays) -> Floats:
        """(n, D) the features that the network sees."""
        check_is_fitted(self)
        return numpy_of(self._over(X, self._method.encoder))

    def score(self, X: Arrays, y: Labels) -> float:
        """Accuracy on images of which all classes are given: new ones are matched one to one, known are not.

        Classes of y that were not labelled in `fit` are the new ones.
        """
        check_is_fitted(self)
        classes = checked_classes(y, number_of(X))
        if classes.min() == UNLABELLED:
            raise DataError("a score needs the class of every image; got -1 for some; leave those images out")
        known = self.classes_[: self._method.task.num_known]
        ordered = np.concatenate([known, np.setdiff1d(classes, known)])
        joint = torch.from_numpy((classes[:, None] == ordered).argmax(1))
        (found,) = task_agnostic(self._scores(X)[None], joint, self._method.task)
        return found["novel-ids"].all

    def save(self, folder: str | Path) -> None:
        """Copy all that `load` needs, and what else the run has written, to a new folder."""
        check_is_fitted(self)
        target = checked_path(folder, "folder")
        if target.exists():
            raise UsageError(f"a model is saved to a new folder; {target} is there already; choose another")
        if not self.run_.exists():
            raise UsageError(
                f"the folder of the run must be there to be saved; {self.run_} is gone; one that fit made "
                "goes with the object that was fitted: save that one"
            )
        check_writable(target)
        with atomic_folder(target) as whole:
            shutil.copytree(self.run_, whole, dirs_exist_ok=True)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A fitted estimator from the folder of a run that `fit` has made; it has no `labels_`."""
        run = Folder(checked_path(folder, "folder").absolute())
        if run.source().arrays is None:
            raise UsageError(
                f"a model must be of images that were given as arrays; {folder} is a run on other images; "
                "use newfound predict"
            )
        recipe, results = run.recipe(), run.read_results()
        settings = changed_settings(recipe, run.source().name)
        seed = settings.pop("seed", 0)
        found = cls(len(results["classes"]["novel"]), recipe.method, random_state=seed, settings=settings)
        found._open(run.path, results)
        return found

    def _checked_settings(self) -> dict[str, Any]:
        given = {} if self.settings is None else self.settings
        named = {"seed": "random_state", "out": "out", "method": "method", "num_novel": "num_novel"}
        wrong = [key for key in named if key in given] if isinstance(given, Mapping) else [repr(given)]
        if wrong:
            raise UsageError(
                f"settings must be a mapping of those that newfound methods {self.method} lists; got "
                f"{wrong[0]}; give it as {named.get(wrong[0], 'a dict')}"
            )
        return {**given, "seed": self._seed()}

    def _seed(self) -> int:
        state = self.random_state
        if not isinstance(state, Integral) or state < 0:
            raise UsageError(
                f"random_state must be a whole number from 0; got {state!r}; give a seed, as 0 is"
            )
        return int(state)

    def _run(self, data: Dataset, out: Path, settings: dict[str, Any]) -> dict[str, Any]:
        """Estimate where it is asked for, then discover."""
        if Folder(out).config.exists():
            raise UsageError(
                f"out must be a new folder; {out} holds a run already; choose another with "
                "set_params(out=...)"
            )
        say = voice(self.verbose)
        if self.num_novel != AUTO:
            return run_discovery(self.method, data, Source.of(data), out, settings, say=say)
        question, cache = Question.of(Source(), self.method, settings), out.parent / "pretrained"
        found = told_estimate(question, data.split, out / "estimate", cache, say=say)
        data = looking_for(found["num_novel"], noted_without_number(data))
        source = Source.of(data).estimated_by(found)
        return run_discovery(self.method, data, source, out, split_settings(settings)[1], say=say)

    def _open(self, run: Path, results: dict[str, Any]) -> None:
        self.run_, self.results_ = run, results
        found = load_method(Folder(run))
        self._method, self._viewer, self._head = found.method, found.viewer, found.head
        known = [int(name) for name in results["classes"]["known"]]
        novel = range(max(known) + 1, max(known) + 1 + self._method.task.num_novel)
        self.classes_ = np.array([*known, *novel], dtype=np.int64)

    def _assigned(self) -> Ints:
        """(m,) the class that the run gives each unlabelled image, as in its assignments.csv."""
        found = Assignments.read(Folder(self.run_).assignments, self.results_["classes"]["novel"])
        novel: Ints = self.classes_[self._method.task.num_known + found.clusters]
        return novel

    def _scores(self, X: Arrays) -> Tensor:
        check_is_fitted(self)
        return self._over(X, lambda view: self._method.scores(view)[self._head])

    def _over(self, X: Arrays, function: Callable[[Tensor], Tensor]) -> Tensor:
        side = self._viewer.look.stored
        images = array_images(X, (side, side))
        warn_of(dark_warnings(images))
        return self._viewer.over(images.to(self._viewer.device), function)
