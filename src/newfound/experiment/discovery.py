"""A whole run, from its settings to what it leaves behind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from newfound.core.config import Recipe
from newfound.core.records import Say
from newfound.data.images import Dataset
from newfound.experiment.finish import finish
from newfound.experiment.folder import Folder
from newfound.experiment.pile import Pile
from newfound.experiment.run import Run, Watch
from newfound.experiment.source import Source


def discovered(
    folder: Folder,
    source: Source,
    dataset: Dataset,
    recipe: Recipe,
    cache: Path,
    *,
    resume: bool = False,
    watch: Watch = lambda record, scores: None,
    say: Say = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, Any], Pile]:
    """Begin a run in `folder`, or go on with the one there, to its end: its results and its pile.

    The images of `source` are at hand as `dataset`; weights of pretraining are shared in `cache`.
    """
    folder.open(source, recipe, resume)
    run = Run(folder, dataset, recipe, watch=watch, say=say, should_stop=should_stop)
    return finish(run, run.discover(cache))
