"""Every method learns: on a few hundred digits with a short schedule it is above chance.

Chance is 20 % here; after matching, random clusters of so many images reach about 25 %. Such short runs
differ by twenty points from one processor to another, which rounds differently, so the limit is not much
higher.
"""

from pathlib import Path

import pytest

from newfound.core.registry import method_names, recipe_for
from newfound.core.settings import Recipe
from newfound.data.benchmarks import load_benchmark
from newfound.data.dataset import Dataset
from newfound.run.folder import Folder
from newfound.run.run import Run
from tests.tiny import accuracy

pytestmark = pytest.mark.slow

SHORT = {"epochs": 20, "warmup": 2, "rampup": 5, "hidden": 64, "projection": 32, "device": "cpu"}
STAGES = {"rotnet": 15, "known": 15, "pretrain": 30, "centres": 5, "similarity": 5}
ABOVE_KMEANS = ("dtc", "ncl", "uno-v1", "uno-v2", "iic", "rkd")
"""The methods for which this short schedule is long enough; the recorded runs show the others."""
ABOVE_CHANCE, MARGIN = 0.3, 0.03


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
    return load_benchmark("digits", subset=100)


def trained_accuracy(name: str, track: str, place: Path, dataset: Dataset) -> float:
    recipe, folder = short_recipe(name, track), Folder(place / f"{name}-{track}")
    done = folder.results.exists()
    return accuracy(folder.read_results() if done else Run(folder, dataset, recipe).discover())


@pytest.mark.parametrize("name", method_names())
def test_above_chance(name: str, place: Path, hundred: Dataset) -> None:
    assert trained_accuracy(name, "published", place, hundred) > ABOVE_CHANCE


@pytest.mark.parametrize("name", ABOVE_KMEANS)
def test_above_kmeans_on_the_same_features(name: str, place: Path, hundred: Dataset) -> None:
    same = "published" if "rotnet" in recipe_for(name, "digits").pretraining else "matched"
    kmeans = trained_accuracy("kmeans", same, place, hundred)
    assert trained_accuracy(name, "published", place, hundred) > kmeans + MARGIN
