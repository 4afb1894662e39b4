"""The ImageNet recipes train: each method that has one, on a small folder tree with real class ids."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from newfound.core.registry import method_entry, method_names, recipe_for
from newfound.core.settings import Recipe
from newfound.data.benchmarks import Benchmark, find_benchmark
from newfound.data.benchmarks.imagenet import POOL, SUBSETS
from newfound.data.dataset import Dataset
from newfound.data.images import ImageSet, ResidentImages
from tests.tiny import accuracy, tiny_run, weights_of

pytestmark = pytest.mark.slow

KNOWN = ("n01440764", "n02085620", "n07753592")
NOVEL = SUBSETS["a"][:2]
BENCHMARK = Benchmark("imagenet-30-a", len(KNOWN), tuple(NOVEL), POOL)
WITH_IMAGENET = [
    name
    for name in method_names()
    if "imagenet-30" in {**method_entry(name).published, **method_entry(name).ours}
]
SMALL = {"encoder": "small", "device": "cpu", "hidden": 16, "projection": 8}
SMALL_MEMORY = {
    "ncl": {"memory": 16, "known_memory": 16, "hard_negatives": 4},
    "dualrank": {"memory": 16, "words": 16},
    "comex": {"memory_size": 16},
}
STAGE = {"epochs": 1, "batch_size": 8, "warmup": 0, "classes_per_batch": 0}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    root, noise = tmp_path_factory.mktemp("imagenet"), np.random.default_rng(0)
    for wnid in (*KNOWN, *NOVEL):
        for part, copies in (("train", 4), ("val", 1)):
            folder = root / part / wnid
            folder.mkdir(parents=True)
            for copy in range(copies):
                pixels = noise.integers(0, 256, (60, 50, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{copy}.JPEG")
    family, _ = find_benchmark("imagenet-30-a")
    return shrunken(family.load(BENCHMARK, root, None))


def shrunken(dataset: Dataset) -> Dataset:
    """Every seventh pixel, to be fast on a CPU."""

    def fewer(images: ImageSet) -> ResidentImages:
        return ResidentImages(images.take(torch.arange(len(images)))[..., ::7, ::7], images.names)

    split, truth = dataset.split, dataset.truth
    assert truth is not None
    assert split.look.size == 224
    small = replace(
        split,
        labelled=fewer(split.labelled),
        unlabelled=fewer(split.unlabelled),
        look=replace(split.look, size=32, stored=37),
    )
    return replace(dataset, split=small, truth=replace(truth, test=fewer(truth.test)))


def small(name: str) -> Recipe:
    recipe = recipe_for(name, "imagenet-30-a")
    known = recipe.flat()
    overrides = {key: value for key, value in (SMALL | STAGE).items() if key in known}
    overrides |= SMALL_MEMORY.get(name, {})
    for stage in recipe.pretraining:
        overrides |= {f"{stage}.{key}": value for key, value in STAGE.items()}
    for stage, train in recipe.train.items():
        if not train.epochs:
            overrides["epochs" if stage == "discover" else f"{stage}.epochs"] = 0
    return recipe_for(name, "imagenet-30-a", overrides)


def test_all_but_the_methods_without_one() -> None:
    assert set(method_names()) - set(WITH_IMAGENET) == {"centroids", "gcd", "rkd", "simgcd"}


@pytest.mark.parametrize("name", WITH_IMAGENET)
def test_the_recipe_trains_and_evaluates(name: str, tree: Dataset, tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", small(name), tree)
    assert 0 <= accuracy(run.discover()) <= 1
    assert all(torch.isfinite(value).all() for value in weights_of(run).values())
