"""The conductor: from data, a recipe and a folder to results."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

import newfound
from newfound.core.errors import Hint, UsageError, shortened
from newfound.core.files import check_apart, check_writable
from newfound.core.learner import Method
from newfound.core.registry import method_entry
from newfound.core.settings import Overrides, Recipe
from newfound.core.source import Source
from newfound.data.dataset import Dataset
from newfound.run.estimation import estimate
from newfound.run.events import Event, Watch
from newfound.run.finish import finish
from newfound.run.folder import Folder
from newfound.run.models import Estimate, Request, Results
from newfound.run.preflight import preflight
from newfound.run.recipe import NETWORK_STAGES, build_method
from newfound.run.training import Training
from newfound.run.weights import load_pretrained

log = logging.getLogger(__name__)


def ignore(event: Event) -> None:
    """Watch nothing."""


def never() -> bool:
    """Stop only at the end."""
    return False


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
        self.folder, self.data, self.recipe, self.search = folder, data, recipe, search or {}
        self.resume, self.command, self.watch, self.should_stop = resume, command, watch, should_stop
        self.estimated: str | None = None
        """The algorithm that the number of novel classes comes from, if it was estimated."""
        self._checked = False

    def discover(self) -> Results:
        """Estimate the number of novel classes if it is unknown, train every stage, write the results."""
        if self.search and self.data.num_novel is not None:
            raise UsageError(
                "The number of novel classes is known, so settings of the estimate have no effect."
            )
        self.check()
        self._find_number()
        with self.folder.open(self.request, self.resume):
            training = Training(self.folder, self.data, self.recipe, self.watch, self.should_stop)
            split = training.data.split
            method = build_method(self.recipe, split.task, split.look, training.device)
            if training.begun("discover") is None:
                self._adopt_weights(training, method)
            training.train("discover", method)
            return finish(training, method, self.source)

    def pretrain(self, until: str | None = None) -> None:
        """Train the stages before discovery, or up to `until`, and cache their weights."""
        self.check()
        if {*self.recipe.pretraining} - {*NETWORK_STAGES}:
            self._find_number()
        with self.folder.open(self.request, self.resume):
            Training(self.folder, self.data, self.recipe, self.watch, self.should_stop).pretrain(until)

    def estimate(self) -> Estimate:
        """Estimate the number of novel classes, whatever number the data set has; resumes by itself."""
        check_apart(self.folder.path, self.source.labelled, self.source.unlabelled)
        return estimate(
            self.folder, self.data, self.recipe, self.source, self.search, self.watch, self.should_stop
        )

    def check(self) -> None:
        """Refuse, before any long work, everything that is known not to work; nothing is written."""
        request = self.request
        if self.data.num_novel is None and self.folder.config.exists():
            begun = self.folder.request().source
            if begun.estimated:  # the estimate is deterministic
                found = {"num_novel": begun.num_novel, "estimated": begun.estimated}
                request = request.model_copy(update={"source": self.source.model_copy(update=found)})
            elif begun.benchmark or begun.num_novel is not None:
                raise UsageError(
                    f"The run in {self.folder.path} was started with a known number of novel classes.",
                    Hint.NEW_FOLDER,
                )
        self.folder.check(request, self.resume)
        check_writable(self.folder.config)
        check_writable(self.folder.cache / "weights")
        if not self._checked:  # it takes a second or two
            number = self.data.num_novel  # any number tells whether the settings fit
            preflight(self.recipe, replace(self.data.split, num_novel=1 if number is None else number))
        self._checked = True

    @property
    def source(self) -> Source:
        """Where the data set comes from, and how many novel classes an estimate found."""
        data = self.data
        source = data.source or Source(
            arrays=data.fingerprint(), num_novel=data.num_novel, pile=data.split.pile
        )
        if self.estimated is None:
            return source
        return source.model_copy(update={"num_novel": self.data.num_novel, "estimated": self.estimated})

    @property
    def request(self) -> Request:
        """What config.json says of this run."""
        return Request(
            newfound=newfound.__version__,
            method=self.recipe.method,
            source=self.source,
            settings=self.recipe.flat(),
            versions=method_entry(self.recipe.method).versions,
            command=self.command,
        )

    def _find_number(self) -> None:
        """Estimate the number of novel classes where the data set has none."""
        if self.data.num_novel is not None:
            return
        found = self.estimate()
        assert found.num_novel is not None
        self.data, self.estimated = self.data.with_num_novel(found.num_novel), found.algorithm
        log.info("using the estimated number of novel classes: %d", found.num_novel)
        preflight(self.recipe, self.data.split)

    def _adopt_weights(self, training: Training, method: Method) -> None:
        """Load pretrained weights into the method: those of a file, or of the stages before it."""
        weights: Mapping[str, Tensor]
        if given := self.recipe.run.pretrained:
            weights, left = load_pretrained(Path(given))
            log.info("pretrained: %d tensors from %s; unused: %s", len(weights), given, shortened(left))
        else:
            weights = training.pretrain()
        if not weights:
            return
        used = method.adopt(weights)
        heads, unused = ({key.split(".")[0] for key in keys} for keys in (used, weights.keys() - set(used)))
        log.info(
            "discover: encoder and %s loaded from the pretrained weights; unused: %s",
            ", ".join(sorted(heads - {"encoder"})) or "no head",
            ", ".join(sorted(unused)) or "none",
        )
