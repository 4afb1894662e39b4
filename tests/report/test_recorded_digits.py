"""What is recorded for digits: methods that the paper puts above k-means are above it here, in the mean."""

from pathlib import Path

import pytest

from newfound.report.paper import task_aware_acc
from newfound.report.recorded import load_records, measured

ROOT = Path(__file__).parents[2]
ABOVE = sorted(
    {"rs", "rs+", "openmix", "ncl", "dtc", "dualrank", "joint", "uno-v1", "uno-v2", "comex", "iic"}
)


def test_the_list_is_the_paper_s() -> None:
    kmeans = task_aware_acc("kmeans")["cifar10"]
    papers = ("kcl", "mcl", *ABOVE)
    assert [name for name in papers if task_aware_acc(name)["cifar10"] > kmeans] == ABOVE


@pytest.mark.parametrize("name", ABOVE)
def test_above_kmeans(name: str) -> None:
    records = load_records(ROOT / "results")
    ours, kmeans = (
        measured(records, each, "digits", "task_aware.train.acc", "newfound") for each in (name, "kmeans")
    )
    assert ours is not None
    assert kmeans is not None
    assert ours.mean > kmeans.mean
