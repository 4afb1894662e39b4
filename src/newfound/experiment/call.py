"""How to start a run again."""

import shlex

from newfound.core.registry import recipe_for
from newfound.estimate.algorithms import ALGORITHMS
from newfound.experiment.folder import Folder
from newfound.experiment.source import Source


def call_of(folder: Folder) -> str:
    """The call that made a run: its images, and the settings that are not its recipe's."""
    source, recipe = folder.source(), folder.recipe()
    base = recipe_for(recipe.method, source.name, {"track": recipe.run.track}).flat()
    settings = {key: value for key, value in recipe.flat().items() if value != base[key]}
    if recipe.run.track != "published":
        settings["track"] = recipe.run.track
    if source.arrays:
        given = f", **{settings!r}" if settings else ""
        return f"newfound.discover({recipe.method!r}, data, {str(folder.path)!r}{given})"
    if source.held_out is not None:
        return "newfound calibrate made this run, with known classes held out"
    if source.estimated:
        if source.estimated not in ALGORITHMS:
            return f"newfound reproduce made this run, with the number of classes that is {source.estimated}"
        settings["estimate.algorithm"] = source.estimated
    words = ["newfound", "discover", recipe.method, *(f"{key}={value}" for key, value in settings.items())]
    return shlex.join([*words, *_options(source), "--out", str(folder.path)])


def _options(source: Source) -> list[str]:
    """A source as the command line takes it; a number that was estimated is estimated again."""
    given = source.as_dict()
    if given.pop("estimated", None):
        given["num_novel"] = "auto"
    words = []
    for key, value in given.items():
        words.append("--data" if key == "benchmark" else "--" + key.replace("_", "-"))
        words += [] if value is True else [str(value)]
    return words
