"""How a run was started."""

import shlex
from dataclasses import asdict
from typing import Any

from newfound.core.config import Recipe
from newfound.core.registry import recipe_for
from newfound.estimate.algorithms import ALGORITHMS
from newfound.estimate.config import PREFIX, estimate_config
from newfound.experiment.folder import Folder
from newfound.experiment.source import Source


def call_of(folder: Folder) -> str | None:
    """The call that made a run: its images, and the settings that are not its recipe's.

    None for a run that no call of discover makes: from Python, of calibrate, with the paper's estimate.
    """
    source, recipe = folder.source(), folder.recipe()
    by_hand = source.estimated is not None and source.estimated not in ALGORITHMS
    if source.arrays or source.held_out is not None or by_hand:
        return None
    settings = changed_settings(recipe, source.name)
    if source.estimated:
        settings |= _estimate_settings(folder, source)
    words = ["newfound", "discover", recipe.method, *(f"{key}={value}" for key, value in settings.items())]
    return shlex.join([*words, *_options(source), "--out", str(folder.path)])


def changed_settings(recipe: Recipe, benchmark: str) -> dict[str, Any]:
    """Those that are not the method's own for such images."""
    base = recipe_for(recipe.method, benchmark, {"track": recipe.run.track}).flat()
    changed = {key: value for key, value in recipe.flat().items() if value != base[key]}
    return changed | ({"track": recipe.run.track} if recipe.run.track != "published" else {})


def _estimate_settings(folder: Folder, source: Source) -> dict[str, Any]:
    """Those of the estimate that are not the usual ones, as far as its record is there."""
    usual = {PREFIX + key: value for key, value in asdict(estimate_config(source.name, {})).items()}
    asked = usual | {f"{PREFIX}algorithm": source.estimated}
    if found := folder.read_estimate():
        asked |= found["settings"]
    return {key: asked[key] for key in usual if asked[key] != usual[key]}


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
