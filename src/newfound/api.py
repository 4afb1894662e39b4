"""The library from Python, for images at hand as arrays."""

from pathlib import Path
from typing import Any

from newfound.core.registry import recipe_for
from newfound.data.images import Dataset
from newfound.experiment.check import check_run
from newfound.experiment.finish import finish
from newfound.experiment.folder import Folder
from newfound.experiment.run import Run
from newfound.experiment.source import Source
from newfound.report.page import write_page
from newfound.review.export import Format, write_export
from newfound.review.files import How
from newfound.review.review import Review


def discover(
    method: str, dataset: Dataset, out: str | Path, *, resume: bool = False, **settings: Any
) -> dict[str, Any]:
    """Find the novel classes of `dataset`, write a page about them, and return what `out`/results.json holds.

    Settings are those of `newfound methods METHOD`; `pretrain.epochs` is given as `**{"pretrain.epochs": 5}`.
    """
    source, folder = Source.of(dataset), Folder(Path(out))
    recipe = recipe_for(method, source.name, settings)
    check_run(recipe, dataset.split)
    folder.open(source, recipe, resume)
    run = Run(folder, dataset, recipe, say=print)
    trained = run.discover(folder.path.parent / "pretrained")
    results, pile = finish(run, trained)
    write_page(Review.open(out), pile)
    return results


def export(run: str | Path, out: str | Path, form: Format | None = None, link: How | None = None) -> None:
    """Write the pile of a finished run with its classes: a table, COCO, or a folder for each class."""
    write_export(Review.open(run), Path(out), form, link)
