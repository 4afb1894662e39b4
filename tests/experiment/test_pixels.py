"""k-means on pixels, of images that differ in nothing but their colour."""

from dataclasses import replace

import pytest
import torch

from newfound.core.errors import DataError
from newfound.core.records import Task
from newfound.data.images import Dataset, Look, ResidentImages, Split, Truth
from newfound.experiment.pixels import pixel_kmeans

TASK = Task(2, 3)
LEVELS = torch.tensor([10, 60, 110, 160, 210])


def painted(classes: torch.Tensor) -> ResidentImages:
    """Images of 8 x 8 pixels, each class a grey of its own and a little noise."""
    noise = torch.randint(-3, 4, (len(classes), 3, 8, 8), generator=torch.Generator().manual_seed(0))
    pixels = LEVELS[classes].view(-1, 1, 1, 1) + noise
    return ResidentImages(pixels.to(torch.uint8), [f"image-{row}" for row in range(len(classes))])


@pytest.fixture
def painting() -> Dataset:
    labels, pile, test = (
        torch.arange(10) % 2,
        torch.tensor([2, 3, 4] * 10),
        torch.tensor([4, 0, 2, 3, 1, 2, 4, 2]),
    )
    look = Look(8, "digits", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 8)
    split = Split(painted(labels), labels, painted(pile), TASK, look)
    return Dataset("painting", split, Truth(pile, painted(test), test), tuple("abcde"), (), "")


def test_colours_are_found_on_both_splits(painting: Dataset) -> None:
    record = pixel_kmeans(painting, seed=0)
    for split, sizes in (("train", [10, 10, 10]), ("test", [1, 2, 3])):
        for metric in ("acc", "nmi", "ari"):
            assert record["task_aware"][split][metric] == {
                "mean": pytest.approx(1),
                "best_head": pytest.approx(1),
            }
        assert sorted(record["task_aware"][split]["cluster_sizes"]) == sizes
    assert record["task_agnostic"] == {}


def test_record_has_the_form_of_results(painting: Dataset) -> None:
    record = pixel_kmeans(painting, seed=4, restarts=2)
    assert set(record) == {
        *("method", "recipe", "benchmark", "seed", "config", "commit", "versions", "hardware"),
        *("peak_memory_gib", "timing", "task_aware", "task_agnostic"),
    }
    told = (record["method"], record["benchmark"], record["seed"], record["config"])
    assert told == ("kmeans-pixels", "painting", 4, {"restarts": 2})
    assert record["timing"]["discover"]["seconds"] > 0


def test_same_seed_same_scores(digits: Dataset) -> None:
    first, second = (pixel_kmeans(digits, seed=3, restarts=2)["task_aware"] for _ in range(2))
    assert first == second


def test_without_the_truth_it_is_one_error(painting: Dataset) -> None:
    with pytest.raises(DataError, match=r"needs the true classes.*use a benchmark"):
        pixel_kmeans(replace(painting, truth=None), seed=0)
