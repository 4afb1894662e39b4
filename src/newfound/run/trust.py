"""How far to trust a run: hide some known classes, and find them as the novel ones were found."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

import torch

from newfound.core.errors import Hint, UsageError
from newfound.core.files import write_record
from newfound.core.settings import Recipe
from newfound.data.dataset import Dataset
from newfound.data.holdout import hold_out
from newfound.metrics.clustering import confusion, matched_hits
from newfound.run.estimation import vectors_of
from newfound.run.events import Watch, ignore, never
from newfound.run.folder import Folder
from newfound.run.models import EstimatedNumber, Trust
from newfound.run.recipe import stored_recipe
from newfound.run.run import Run
from newfound.run.trained import images_of

log = logging.getLogger(__name__)
TRIALS = 3
"""Trials on vectors, which take little time; on images there is only one."""
SUMS = ("images", "known_images")
"""Fields that are summed over the trials."""
MEANS = (
    *("accuracy", "mean_accuracy", "largest_class", "recognised", "mistaken", "kmeans", "unsorted"),
    "calibration_error",
)
"""Fields that are averaged over the trials."""
STARTS = 10
"""Restarts of k-means; the one with the lowest inertia counts."""


def find_hidden(
    folder: Folder,
    number: int | None = None,
    data_dir: str | None = None,
    watch: Watch = ignore,
    should_stop: Callable[[], bool] = never,
) -> Trust:
    """Hide `number` known classes (by default two fifths), repeat the run on the rest, and write trust.json.

    If the pile is mixed, images of the other known classes join the hidden ones. The number of hidden classes
    is estimated too, if that is quick or the run has estimated its own. Vectors get several trials, each with
    different hidden classes. Trials are runs in the folder `trust`, and always resume.
    """
    results, first = folder.read_results(), folder.inner("trust")
    begun = first.request().source.held_out if first.config.exists() else None
    if begun is not None and number not in (None, begun):
        raise UsageError(f"The trial in {first.path} hides {begun} classes, not {number}.", Hint.HOLD_OUT)
    number, data, recipe = begun if number is None else number, images_of(folder, data_dir), _recipe(folder)

    def trial(draw: int) -> Trust:
        inner = first.inner(str(draw)) if draw else first
        run = Run(
            inner, hold_out(data, number, draw), recipe, resume=True, watch=watch, should_stop=should_stop
        )
        return _scored(run, count=vectors or results.estimate is not None)

    vectors = data.split.look.kind == "vectors"
    trust = _together([trial(draw) for draw in range(TRIALS)]) if vectors else trial(0)
    write_record(folder.trust, trust)
    return trust


def _recipe(folder: Folder) -> Recipe:
    """The recipe of the run, without weights that may have seen the hidden classes."""
    recipe = stored_recipe(folder.request())
    if recipe.run.pretrained:
        log.info("training the network from scratch: the given weights may have seen the hidden classes")
        recipe = replace(recipe, run=replace(recipe.run, pretrained=""))
    return recipe


def _scored(run: Run, count: bool) -> Trust:
    """Run a trial unless it is finished, and score it; `count` estimates the number of hidden classes too."""
    data, folder = run.data, run.folder
    log.info(data.note)
    found = folder.read_results() if folder.results.exists() else run.discover()
    for warning in found.warnings:
        log.warning(warning)
    assert data.truth is not None
    assert found.task_aware is not None
    mixed, vectors = found.generalised and found.generalised.train, data.split.look.kind == "vectors"
    accuracy = mixed.novel if mixed else found.task_aware.train.acc
    sizes = data.truth.labels.bincount(minlength=len(data.class_names)).tolist()
    known, hidden = sizes[: data.num_known], sizes[data.num_known :]
    return Trust(
        hidden=list(data.class_names[data.num_known :]),
        images=sum(hidden),
        accuracy=accuracy.best_head or 0.0,
        mean_accuracy=accuracy.mean or 0.0,
        largest_class=None if mixed else max(hidden) / sum(hidden),
        known_images=sum(known),
        recognised=mixed.recognised.best_head if mixed else None,
        mistaken=mixed.mistaken.best_head if mixed else None,
        numbers=[_counted(run)] if count else [],
        calibration_error=found.calibration.error,
        kmeans=_kmeans(data, run.recipe.run.seed) if vectors else None,
        unsorted=found.unsorted / len(data.split.unlabelled),
    )


def _together(trials: Sequence[Trust]) -> Trust:
    """Combine several trials: sums of images, means of shares."""
    values = {name: [getattr(each, name) for each in trials] for name in (*SUMS, *MEANS)}
    update = {name: sum(values[name]) for name in SUMS}
    update |= {name: fmean(values[name]) for name in MEANS if None not in values[name]}
    numbers = [number for each in trials for number in each.numbers]
    update |= {"accuracies": values["accuracy"], "numbers": numbers}
    return trials[0].model_copy(update=update)


def _counted(run: Run) -> EstimatedNumber:
    """Estimate the number of hidden classes."""
    found = run.estimate()
    assert found.num_novel is not None
    number, algorithm = found.num_novel, found.algorithm
    return EstimatedNumber(num_novel=number, algorithm=algorithm, low=found.low, high=found.high)


def _kmeans(data: Dataset, seed: int) -> float:
    """The accuracy of plain k-means on the hidden classes, from the vectors of the pile."""
    from sklearn.cluster import KMeans  # slow to import

    assert data.truth is not None
    split, labels = data.split, data.truth.labels
    points = vectors_of(split, torch.device("cpu")).pile
    number = split.task.num_classes if split.pile == "mixed" else split.task.num_novel
    found = KMeans(number, n_init=STARTS, random_state=seed).fit_predict(points.numpy())
    hits = matched_hits(confusion(torch.from_numpy(found), labels, number, len(data.class_names)))
    return int(hits[split.num_known :].sum()) / int((labels >= split.num_known).sum())
