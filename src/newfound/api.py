"""The library from Python."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from newfound.core.config import Overrides
from newfound.core.errors import DataError, UsageError
from newfound.core.paths import checked_path
from newfound.core.records import Say
from newfound.core.registry import recipe_for
from newfound.data.arrays import as_array
from newfound.data.images import Dataset
from newfound.experiment.check import check_run
from newfound.experiment.discovery import discovered
from newfound.experiment.folder import Folder
from newfound.experiment.source import Source
from newfound.experiment.telling import Lines, naming_arguments, voice, warn_of
from newfound.metrics import clustering
from newfound.report.page import write_page
from newfound.review.export import Format, write_export
from newfound.review.files import How
from newfound.review.review import Review


def discover(
    method: str,
    dataset: Dataset,
    out: str | Path,
    *,
    resume: bool = False,
    verbose: bool = True,
    **settings: Any,
) -> dict[str, Any]:
    """Find the novel classes of `dataset`, write a page about them, and return what `out`/results.json holds.

    Settings are those of `newfound methods METHOD`; `pretrain.epochs` is given as `**{"pretrain.epochs": 5}`.
    How it goes is printed if `verbose`; what looks wrong with the images, and what `warnings` holds in the
    end, is warned of in any case.
    """
    if "num_novel" in settings:
        raise UsageError(
            "num_novel must be given with the images; got it as a setting; make the data set with "
            "newfound.from_arrays(images, labels, num_novel)"
        )
    source, folder, say = Source.of(dataset), checked_path(out, "out"), voice(verbose)
    warn_of(dataset.warnings)
    with naming_arguments():
        results = run_discovery(method, dataset, source, folder, settings, resume=resume, say=say)
    say(f"to look at what was found, open {Folder(folder).report}")
    warn_of(results["warnings"])
    return results


def run_discovery(
    method: str,
    dataset: Dataset,
    source: Source,
    out: Path,
    settings: Overrides,
    *,
    resume: bool = False,
    say: Say,
) -> dict[str, Any]:
    """A whole run on images at hand, of which `source` tells where they come from; returns its results."""
    recipe = recipe_for(method, source.name, settings)
    check_run(recipe, dataset.split)
    say(dataset.note)
    folder, cache = Folder(out), out.parent / "pretrained"
    results, pile = discovered(
        folder, source, dataset, recipe, cache, resume=resume, watch=Lines(say), say=say
    )
    write_page(Review.open(out), pile)
    say(f"images in each novel class: {', '.join(map(str, results['cluster_sizes']))}")
    return results


def export(
    run: str | Path, out: str | Path, form: Format | None = None, link: How | None = None
) -> dict[str, str]:
    """Write the pile of a finished run with its classes: a table, COCO, or a folder for each class.

    Returns the classes whose folders have other names than they.
    """
    return write_export(Review.open(run), checked_path(out, "out"), form, link)


def hungarian_accuracy(predicted: ArrayLike | Tensor, true: ArrayLike | Tensor) -> float:
    """The share of samples that the best one-to-one match of clusters (n,) with classes (n,) gets right."""
    given = [_named(predicted), _named(true)]
    shapes = [each.shape for each in given]
    if shapes[0] != shapes[1] or len(shapes[0]) != 1 or given[0].size == 0:
        raise DataError(
            f"clusters and classes must be (n,), one of each for every sample; got {shapes[0]} and "
            f"{shapes[1]}; give the cluster and the class of each"
        )
    ids = (torch.from_numpy(np.unique(each, return_inverse=True)[1]) for each in given)
    return clustering.hungarian_accuracy(*ids)


def _named(given: ArrayLike | Tensor) -> NDArray[Any]:
    """What clusters or classes are called: whole numbers of whatever type, or names."""
    values = as_array(
        given.cpu() if isinstance(given, Tensor) else given, "clusters or classes", "leave such samples out"
    )
    for each in values.ravel().tolist():
        if not (isinstance(each, int | str | bytes) or (isinstance(each, float) and each.is_integer())):
            raise DataError(
                f"clusters and classes must be whole numbers or names; got {each!r}; leave such samples out"
            )
    return values
