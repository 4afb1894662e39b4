"""The conductor: from data, a recipe and a folder to results."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

import newfound
from newfound.core import dist
from newfound.core.errors import DataError, Hint, UsageError, shortened
from newfound.core.files import check_apart, check_writable
from newfound.core.learner import Method
from newfound.core.registry import method_entry
from newfound.core.settings import Overrides, Recipe
from newfound.core.source import Source
from newfound.data.dataset import Dataset, Split
from newfound.data.vectors import sampled
from newfound.nn.encoders import preprocessing_of
from newfound.run.estimation import estimate
from newfound.run.events import Control, Watch, ignore, never
from newfound.run.finish import finish
from newfound.run.folder import Folder
from newfound.run.models import Estimate, Request, Results
from newfound.run.preflight import Plan, plan, preflight
from newfound.run.recipe import NETWORK_STAGES, build_method, encoder_name
from newfound.run.training import Training
from newfound.run.weights import load_pretrained

log = logging.getLogger(__name__)
LONG = 2e6
"""A run that trains on more crops than this says beforehand what it will need."""
LARGE = 50_000
"""So does a run on more unlabelled vectors than this."""


def source_of(data: Dataset) -> Source:
    """Where a data set comes from; arrays are identified by their fingerprint."""
    return data.source or Source(arrays=data.fingerprint(), num_novel=data.num_novel, pile=data.split.pile)


def request_of(recipe: Recipe, source: Source, command: str | None = None) -> Request:
    """The content of config.json for a run with this recipe."""
    return Request(
        newfound=newfound.__version__,
        method=recipe.method,
        source=source,
        settings=recipe.flat(),
        versions=method_entry(recipe.method).versions,
        command=command,
    )


def check_folder(folder: Folder, request: Request, resume: bool, unknown_number: bool) -> None:
    """Refuse a folder in which the run cannot be; this writes nothing and needs no images."""
    if unknown_number and folder.config.exists():
        begun = folder.request().source
        if begun.estimated:  # estimates are deterministic, so the number would be the same
            found = {"num_novel": begun.num_novel, "estimated": begun.estimated}
            request = request.model_copy(update={"source": request.source.model_copy(update=found)})
    folder.check(request, resume)
    check_writable(folder.config)
    check_writable(folder.cache / "weights")


class Run:
    """One run in one folder; the only code that takes data, a recipe and a folder to results."""

    def __init__(
        self,
        folder: Folder,
        data: Dataset,
        recipe: Recipe,
        *,
        search: Overrides | None = None,
        resume: bool = False,
        command: str | None = None,
        watch: Watch = ignore,
        should_stop: Callable[[], bool] = never,
    ) -> None:
        self.folder, self.recipe, self.search = folder, recipe, search or {}
        self.data = _as_encoder_sees(data, recipe)
        self.resume, self.command, self.watch, self.should_stop = resume, command, watch, should_stop
        self.estimated: str | None = None
        """The algorithm that estimated the number of novel classes, if it was estimated."""
        self.work: dict[str, float] = {}
        """Stage → its work; empty before the run is checked."""

    def discover(self) -> Results:
        """Estimate the number of novel classes if it is unknown, train every stage, and write the results."""
        self.check()
        self._find_number()
        with self.folder.open(self.request, self.resume), dist.processes(self.recipe.run.devices):
            training = self._training()
            split = training.data.split
            method = build_method(self.recipe, split.task, split.look, training.device)
            if training.begun("discover") is None:
                self._adopt_weights(training, method)
            training.train("discover", method)
            return finish(training, method, self.source, self.data.split)

    def pretrain(self, until: str | None = None) -> None:
        """Train the stages before discovery, or those up to `until`, and cache their weights."""
        self.check()
        if {*self.recipe.pretraining} - {*NETWORK_STAGES}:
            self._find_number()
        with self.folder.open(self.request, self.resume), dist.processes(self.recipe.run.devices):
            self._training().pretrain(until)

    def estimate(self, then_discover: bool = False) -> Estimate:
        """Estimate the number of novel classes, even if the data set has one; always resumes."""
        check_apart(self.folder.path, self.source.labelled, self.source.unlabelled)
        ahead = sum(self.work.values()) if then_discover else 0.0
        with dist.processes(self.recipe.run.devices):
            return estimate(
                self.folder, self.data, self.recipe, self.source, self.search, self._control, ahead
            )

    def check(self) -> None:
        """Refuse, before any long work, whatever is known to fail; nothing is written."""
        check_folder(self.folder, self.request, self.resume, self.data.num_novel is None)
        if self.work:  # was checked before
            return
        self.work, split = preflight(self.recipe, self._split), self.data.split
        vectors = len(split.unlabelled) if split.look.kind == "vectors" else 0
        if sum(self.work.values()) > LONG or vectors > LARGE:
            needed = self.plan()
            needed.check(self.folder.path)
            for line in needed.lines:
                log.info(line)

    def plan(self, embedding: float = 0.0) -> Plan:
        """What the run will need; `embedding` is how many seconds embedding the images takes."""
        work = self.work or preflight(self.recipe, self._split)
        with dist.expecting(self.recipe.run.devices):
            return plan(self.recipe, self.data, work, embedding)

    @property
    def source(self) -> Source:
        """Where the data set comes from, with the number of novel classes if it was estimated."""
        source = source_of(self.data)
        if self.estimated is None:
            return source
        return source.model_copy(update={"num_novel": self.data.num_novel, "estimated": self.estimated})

    @property
    def request(self) -> Request:
        """The content of config.json."""
        return request_of(self.recipe, self.source, self.command)

    def _find_number(self) -> None:
        """Estimate the number of novel classes if the data set does not have it."""
        if self.data.num_novel is not None:
            return
        found = self.estimate(then_discover=True)
        assert found.num_novel is not None
        if not found.num_novel and method_entry(self.recipe.method).method.made_for != "mixed":
            raise DataError("All unlabelled images look like known classes.", Hint.NUM_NOVEL)
        self.data, self.estimated = self.data.with_num_novel(found.num_novel), found.algorithm
        log.info("using the estimated number of novel classes: %d", found.num_novel)
        self.work = preflight(self.recipe, self._split)

    @property
    def _control(self) -> Control:
        return Control(self.watch, self.should_stop)

    @property
    def _split(self) -> Split:
        """The images to train on; any number of novel classes will do to check the settings."""
        split = sampled(self.data, self.recipe.run.sample, self.recipe.run.seed).split
        return replace(split, num_novel=1) if split.num_novel is None else split

    def _training(self) -> Training:
        return Training(self.folder, self.data, self.recipe, self._control, self.work)

    def _adopt_weights(self, training: Training, method: Method) -> None:
        """Load pretrained weights into the method, from a file or from the stages before it."""
        weights: Mapping[str, Tensor]
        if given := self.recipe.run.pretrained:
            weights, left = load_pretrained(Path(given))
            log.info("pretrained: %d tensors from %s; unused: %s", len(weights), given, shortened(left))
        else:
            weights = training.pretrain()
        if not weights:
            return
        used = method.adopt(weights)
        if not given and not any(self.recipe.train[stage].epochs for stage in self.recipe.pretraining):
            return
        heads, unused = ({key.split(".")[0] for key in keys} for keys in (used, weights.keys() - set(used)))
        log.info(
            "discover: encoder and %s loaded from the pretrained weights; unused: %s",
            ", ".join(sorted(heads - {"encoder"})) or "no head",
            ", ".join(sorted(unused)) or "none",
        )


def _as_encoder_sees(data: Dataset, recipe: Recipe) -> Dataset:
    """The data set with a pretrained encoder's colour statistics, and its size unless one was requested."""
    look, source = data.split.look, data.source or Source()
    wanted = None if look.kind == "vectors" else preprocessing_of(encoder_name(recipe, look))
    if wanted is None:
        if source.benchmark and source.size:
            raise UsageError("A benchmark has a fixed size, unless a pretrained encoder is trained on it.")
        return data
    look = replace(look, mean=wanted.mean, std=wanted.std)
    if look.kind != "digits" and (source.benchmark or not source.size):
        look = replace(look, kind="imagenet", size=source.size or max(wanted.size, look.size))
    return replace(data, split=replace(data.split, look=look))
