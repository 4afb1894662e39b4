"""Every method learns: on a few hundred digits and a short schedule it is far above chance.

Chance is 20 % here; after matching, random clusters of so many images reach about 25 %.
"""

import json
from pathlib import Path

import pytest

from newfound.core.config import Recipe
from newfound.core.registry import method_names, recipe_for
from newfound.data.images import Dataset
from newfound.experiment import Folder, Run, Source
from newfound.experiment.finish import finish

SOURCE = Source(benchmark="digits", subset=100)
SHORT = {"epochs": 20, "warmup": 2, "rampup": 5, "hidden": 64, "projection": 32, "device": "cpu"}
STAGES = {"rotnet": 15, "known": 15, "pretrain": 30, "centres": 5, "similarity": 5}
ABOVE_KMEANS = ("dtc", "ncl", "uno-v1", "uno-v2", "iic", "rkd")
"""Those that a schedule this short takes there; the recorded runs show the others."""
FAR_ABOVE_CHANCE, MARGIN = 0.4, 0.03


def short_recipe(name: str, track: str = "published") -> Recipe:
    recipe = recipe_for(name, "digits", {"track": track})
    known = recipe.flat()
    short = {key: value for key, value in SHORT.items() if key in known}
    short |= {f"{stage}.epochs": STAGES[stage] for stage in recipe.pretraining}
    if not recipe.train["discover"].epochs:
        short["epochs"] = 0
    return recipe_for(name, "digits", {"track": track, **short})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs beside each other share their pretraining."""
    return tmp_path_factory.mktemp("digits")


@pytest.fixture(scope="module")
def hundred() -> Dataset:
    return SOURCE.load()


def accuracy(name: str, track: str, place: Path, dataset: Dataset) -> float:
    recipe, folder = short_recipe(name, track), Folder(place / f"{name}-{track}")
    if not folder.results.exists():
        folder.open(SOURCE, recipe, resume=False)
        run = Run(folder, dataset, recipe)
        finish(run, run.discover(place / "pretrained"))
    found = json.loads(folder.results.read_text())
    return float(found["task_aware"]["train"]["acc"]["mean"])


@pytest.mark.parametrize("name", method_names())
def test_far_above_chance(name: str, place: Path, hundred: Dataset) -> None:
    assert accuracy(name, "published", place, hundred) > FAR_ABOVE_CHANCE


@pytest.mark.parametrize("name", ABOVE_KMEANS)
def test_above_kmeans_on_the_same_features(name: str, place: Path, hundred: Dataset) -> None:
    same = "published" if "rotnet" in recipe_for(name, "digits").pretraining else "matched"
    kmeans = accuracy("kmeans", same, place, hundred)
    assert accuracy(name, "published", place, hundred) > kmeans + MARGIN
